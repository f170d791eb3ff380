"""authorize, authorizeByResourceType and authorizedOperations against Kafka 4.4.0's own answers."""

from collections.abc import Callable, Iterator
from typing import ParamSpec

from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import AuthorizerNotReadyException, InvalidRequestException
from app.core.kafka.hosts import ClientAddress, parse_address
from app.core.kafka.operations import from_bit_field, supported_operations, to_bit_field, to_int32
from tests.budgets import budget
from tests.gate.differential.scenes import image_in, reference_in
from tests.vectors.loader import Line, lines

EVERY = budget("lines of the vectors")

P = ParamSpec("P")


def in_kafkas_words(ask: Callable[P, str], *args: P.args, **kwargs: P.kwargs) -> str:
    try:
        return ask(*args, **kwargs)
    except AuthorizerNotReadyException:
        return "ERROR:AuthorizerNotReadyException"
    except InvalidRequestException:
        return "ERROR:IllegalArgumentException"


def requests_in(line: Line) -> Iterator[tuple[Line, ClientAddress]]:
    for request in line["requests"]:
        address = parse_address(request["host"])
        assert address.text == request.get("host_address", request["host"])
        yield request, address


def place(line: Line) -> str:
    return f"line {line['n']} ({line['category']})"


def decide(image: AuthorizerImage, principal: str, address: ClientAddress, action: Line) -> str:
    caller = Authorization(image, principal, address)
    operation = AclOperation.from_string(action["operation"])
    resource_type = ResourceType.from_string(action["resource_type"])
    decision = caller.decision(operation, resource_type, action["resource_name"])
    verdict = caller.decide(operation, resource_type, action["resource_name"])
    assert decision.verdict is verdict
    return verdict.result.value


def differences(line: Line, answers: str) -> Iterator[str]:
    image = image_in(line)
    for request, address in requests_in(line):
        for action, expected in zip(request["actions"], request[answers], strict=True):
            answer = in_kafkas_words(decide, image, request["principal"], address, action)
            if answer != expected:
                yield f"{place(line)}: {request['principal']} {action}: {answer}, not {expected}"


def test_authorize_answers_as_kafka() -> None:
    assert [each for line in lines("authorize", EVERY) for each in differences(line, "expected")] == []


def test_where_kafka_breaks_its_rules_authorize_follows_the_rules() -> None:
    quirks = list(lines("authorize_quirks"))
    assert len(quirks) == 33
    assert [each for line in quirks for each in differences(line, "documented_rules_say")] == []


def by_resource_type(image: AuthorizerImage, principal: str, address: ClientAddress, check: Line) -> str:
    operation = AclOperation.from_string(check["operation"])
    resource_type = ResourceType.from_string(check["resource_type"])
    caller = Authorization(image, principal, address)
    return caller.authorize_by_resource_type(operation, resource_type).result.value


def rules_on_type(line: Line, request: Line, check: Line, *, zero_is_nowhere: bool) -> str:
    allowed = reference_in(line, zero_is_nowhere=zero_is_nowhere).authorize_by_resource_type(
        request["principal"],
        request["host"],
        AclOperation.from_string(check["operation"]),
        ResourceType.from_string(check["resource_type"]),
    )
    return "ALLOWED" if allowed else "DENIED"


def differences_by_resource_type(line: Line) -> Iterator[str]:
    image = image_in(line)
    for request, address in requests_in(line):
        for check, expected in zip(request["checks"], request["expected"], strict=True):
            answer = in_kafkas_words(by_resource_type, image, request["principal"], address, check)
            if answer == expected:
                continue
            # Kafka 4.4.0 finds 0.0.0.0 in no range (quirk 4); the documented rules do.
            if address.value == 0 and (expected, answer) == (
                rules_on_type(line, request, check, zero_is_nowhere=True),
                rules_on_type(line, request, check, zero_is_nowhere=False),
            ):
                continue
            yield f"{place(line)}: {request['principal']} {check}: {answer}, not {expected}"


def test_authorize_by_resource_type_answers_as_kafka() -> None:
    assert [each for line in lines("by_resource_type", EVERY) for each in differences_by_resource_type(line)] == []


def authorized_operations(image: AuthorizerImage, principal: str, address: ClientAddress, resource: Line) -> str:
    caller = Authorization(image, principal, address)
    resource_type = ResourceType.from_string(resource["resource_type"])
    return str(to_int32(caller.authorized_operations(resource_type, resource["resource_name"])))


def differences_in_authorized_operations(line: Line) -> Iterator[str]:
    image = image_in(line)
    for request, address in requests_in(line):
        for resource, expected in zip(request["resources"], request["expected"], strict=True):
            answer = in_kafkas_words(authorized_operations, image, request["principal"], address, resource)
            wanted = expected["error"] if "error" in expected else str(expected["bitfield"])
            if "error" not in expected:
                names = [operation.name for operation in from_bit_field(expected["bitfield"])]
                assert names == expected["operations"]
            if answer != wanted:
                yield f"{place(line)}: {request['principal']} {resource}: {answer}, not {wanted}"


def test_authorized_operations_answers_as_kafka() -> None:
    found = [
        each for line in lines("authorized_operations", EVERY) for each in differences_in_authorized_operations(line)
    ]
    assert found == []


def test_supported_operations_are_kafkas() -> None:
    known = list(lines("supported_operations"))
    assert [ResourceType.from_string(line["resource_type"]) for line in known] == list(ResourceType)[2:]
    for line in known:
        resource_type = ResourceType.from_string(line["resource_type"])
        assert resource_type == line["resource_type_code"]
        supported = supported_operations(resource_type)
        assert [operation.name for operation in supported] == line["supported_operations"]
        assert to_int32(to_bit_field(supported)) == line["bitfield_if_all_allowed"]
