"""The reference authorizer of the property tests, held against Kafka 4.4.0's own answers before core is held to it."""

from collections.abc import Iterator

from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.operations import supported_operations
from tests.budgets import budget
from tests.gate.differential.scenes import reference_in
from tests.vectors.loader import Line, lines

EVERY = budget("lines of the vectors")


def word(*, allowed: bool) -> str:
    return "ALLOWED" if allowed else "DENIED"


def differences(line: Line, answers: str) -> Iterator[str]:
    reference = reference_in(line, zero_is_nowhere=answers == "expected")
    for request in line["requests"]:
        host = request.get("host_address", request["host"])
        for action, expected in zip(request["actions"], request[answers], strict=True):
            operation = AclOperation.from_string(action["operation"])
            resource_type = ResourceType.from_string(action["resource_type"])
            name = action["resource_name"]
            if (
                word(allowed=reference.authorize(request["principal"], host, operation, resource_type, name))
                != expected
            ):
                yield f"line {line['n']}: {request['principal']} {action}: not {expected}"


def test_reference_authorizes_as_kafka() -> None:
    loaded = (line for line in lines("authorize", EVERY) if line.get("loaded", True))
    assert [each for line in loaded for each in differences(line, "expected")] == []


def test_reference_keeps_the_documented_rules_where_kafka_breaks_them() -> None:
    assert [each for line in lines("authorize_quirks") for each in differences(line, "documented_rules_say")] == []


def differences_by_resource_type(line: Line) -> Iterator[str]:
    reference = reference_in(line, zero_is_nowhere=True)
    for request in line["requests"]:
        host = request.get("host_address", request["host"])
        for check, expected in zip(request["checks"], request["expected"], strict=True):
            if expected.startswith("ERROR"):
                continue
            operation = AclOperation.from_string(check["operation"])
            resource_type = ResourceType.from_string(check["resource_type"])
            allowed = reference.authorize_by_resource_type(request["principal"], host, operation, resource_type)
            if word(allowed=allowed) != expected:
                yield f"line {line['n']}: {request['principal']} {check}: not {expected}"


def test_reference_authorizes_by_resource_type_as_kafka() -> None:
    loaded = (line for line in lines("by_resource_type", EVERY) if line.get("loaded", True))
    assert [each for line in loaded for each in differences_by_resource_type(line)] == []


def test_reference_knows_kafkas_authorized_operations() -> None:
    for line in lines("authorized_operations", EVERY):
        reference = reference_in(line, zero_is_nowhere=True)
        for request in line["requests"] if line.get("loaded", True) else ():
            host = request.get("host_address", request["host"])
            for resource, expected in zip(request["resources"], request["expected"], strict=True):
                resource_type = ResourceType.from_string(resource["resource_type"])
                operations = reference.authorized_operations(
                    request["principal"],
                    host,
                    (resource_type, resource["resource_name"]),
                    supported_operations(resource_type),
                )
                assert [operation.name for operation in operations] == expected["operations"]
