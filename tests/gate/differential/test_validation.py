"""What createAcls, deleteAcls and the settings refuse, held against Kafka 4.4.0's refusals, every case by name.

Where Kafka fails a whole request (error code -1) Klamm refuses the one entry with INVALID_REQUEST; `MAPPED` lists each
of those cases with the text that Klamm gives, and `NOT_IN_CORE` the cases that another room answers for.
"""

import pytest

from app.core.index.search import search
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import ALLOW_EVERYONE, SUPER_USERS, parse_configs
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.validation import validate_filter, validate_new_acl
from tests.images import binding_of, filter_of, index_of, numbered
from tests.vectors.loader import Line, lines

MAPPED = {
    "resource type UNKNOWN": "Invalid resourceType UNKNOWN",
    "pattern type UNKNOWN": "Invalid patternType UNKNOWN",
    "operation UNKNOWN": "Invalid operation UNKNOWN",
    "permission UNKNOWN": "Invalid permissionType UNKNOWN",
    "resource type ANY": "resourceType must not be ANY",
    "pattern type ANY": "patternType must not be ANY",
    "pattern type MATCH": "patternType must not be MATCH",
    "operation ANY": "operation must not be ANY",
    "permission ANY": "permissionType must not be ANY",
    "resource name of 32,768 bytes": "'resourceName' field is too long to be serialized",
    "two faults: ANY resource type and no colon": "resourceType must not be ANY",
}
MAPPED_FILTERS = {
    "resource type UNKNOWN": "Unknown patternFilter.",
    "pattern type UNKNOWN": "Unknown patternFilter.",
    "operation UNKNOWN": "Unknown entryFilter.",
    "permission UNKNOWN": "Unknown entryFilter.",
}
NOT_IN_CORE = {
    "resource name null": "a binding has a name; rest refuses null",
    "principal null": "a binding has a principal; rest refuses null",
    "host null": "a binding has a host; rest refuses null",
    "host CIDR while the metadata version is older": "Klamm has no older metadata version",
}
_FUTURE = {
    "resource_type_code": "resource_type",
    "pattern_type_code": "pattern_type",
    "operation_code": "operation",
    "permission_type_code": "permission_type",
}
LINES = list(lines("validation"))


def cases(kind: str) -> list[Line]:
    found = [line for line in LINES if line["kind"] == kind]
    assert found
    return found


def with_future_words(fields: Line) -> Line:
    """A code from the future is an unknown word over REST."""
    changed = {field: "FROM_THE_FUTURE" for code, field in _FUTURE.items() if code in fields}
    name = fields["resource_name"]
    if name is not None and name.startswith("x x "):
        changed["resource_name"] = "x" * int(name.removeprefix("x x "))
    return {**fields, **changed}


CREATES = [line for line in cases("create") if line["case"] not in NOT_IN_CORE]


def test_create_is_refused_as_by_kafka(subtests: pytest.Subtests) -> None:
    for line in CREATES:
        with subtests.test(line=line):
            refusal = validate_new_acl(binding_of(with_future_words(line["acl"])))
            if line["rejected_by"] is None:
                assert refusal is None
                continue
            assert refusal is not None
            assert (refusal.error.name, refusal.error.error_code) == ("INVALID_REQUEST", 42)
            if line.get("whole_request_fails"):
                assert refusal.message == MAPPED[line["case"]]
            else:
                assert line["error_code"] == 42
                assert refusal.message == line["error_message_on_the_wire"]


def test_every_mapped_text_has_its_case() -> None:
    failing_whole = {line["case"] for line in cases("create") if line.get("whole_request_fails")}
    assert failing_whole - set(NOT_IN_CORE) == set(MAPPED)
    assert {line["case"] for line in cases("delete") if line.get("whole_request_fails")} == set(MAPPED_FILTERS)
    assert set(NOT_IN_CORE) <= {line["case"] for line in LINES}


def test_filter_is_refused_as_by_kafka(subtests: pytest.Subtests) -> None:
    for line in cases("delete"):
        with subtests.test(line=line):
            refusal = validate_filter(filter_of(with_future_words(line["filter"])))
            if line["rejected_by"] is None:
                assert refusal is None
                continue
            assert refusal is not None
            assert (refusal.error.name, refusal.error.error_code) == ("INVALID_REQUEST", 42)
            assert refusal.message == line["controller_alone"]["error_message_on_the_wire"]
            assert refusal.message == MAPPED_FILTERS.get(line["case"], refusal.message)


# The file does not name the five ACLs that Kafka deleted from; these are the ones its counts leave possible.
FIVE = [
    AclBinding(resource_type, name, pattern_type, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
    for resource_type, name, pattern_type in (
        (ResourceType.TOPIC, "foo", PatternType.LITERAL),
        (ResourceType.TOPIC, "*", PatternType.LITERAL),
        (ResourceType.TOPIC, "f", PatternType.PREFIXED),
        (ResourceType.TOPIC, "bar", PatternType.LITERAL),
        (ResourceType.GROUP, "foo", PatternType.LITERAL),
    )
]


def test_filter_means_as_many_acls_as_in_kafka(subtests: pytest.Subtests) -> None:
    for line in [line for line in cases("delete") if "deleted_of_5" in line]:
        with subtests.test(line=line):
            meant = [acl for step in search(index_of(numbered(FIVE)), filter_of(line["filter"])) for acl in step]
            assert len(meant) == line["deleted_of_5"]


def test_super_users_are_read_as_by_kafka(subtests: pytest.Subtests) -> None:
    for line in cases("super.users"):
        with subtests.test(line=line):
            if "exception" in line:
                with pytest.raises(InvalidRequestException) as refusal:
                    parse_configs({SUPER_USERS: line["case"]})
                assert refusal.value.message == line["exception_message"]
            else:
                users = parse_configs({SUPER_USERS: line["case"]}).super_users
                assert f"[{', '.join(sorted(users))}]" == line["super_users"]


def test_allow_everyone_is_read_as_by_kafka(subtests: pytest.Subtests) -> None:
    for line in cases("allow.everyone.if.no.acl.found"):
        with subtests.test(line=line):
            config = parse_configs({ALLOW_EVERYONE: line["case"]})
            assert config.allow_everyone_if_no_acl_found == (line["default_result"] == "ALLOWED")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("operation_code", AclOperation),
        ("resource_type_code", ResourceType),
        ("pattern_type_code", PatternType),
        ("permission_type_code", AclPermissionType),
    ],
)
def test_codes_are_kafkas(
    kind: str, words: type[AclOperation] | type[ResourceType] | type[PatternType] | type[AclPermissionType]
) -> None:
    assert [(line["case"], line["code"]) for line in cases(kind)] == [(word.name, int(word)) for word in words]
