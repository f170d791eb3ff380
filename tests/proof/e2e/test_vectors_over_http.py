"""Kafka 4.4.0's own answers, a slice of each file of them, through HTTP and PostgreSQL (tests/vectors)."""

from collections.abc import Iterator
from itertools import islice

import httpx
import pytest

from app.core.kafka.validation import validate_new_acl
from tests.gate.differential.test_validation import FIVE, MAPPED, MAPPED_FILTERS, with_future_words
from tests.images import acl_of
from tests.klamm import Json, Process, context, over_socket, replica
from tests.postgres import Postgres
from tests.vectors.loader import Line, lines

SCENARIOS = 60
"""How many of each file: evenly drawn, and each a round of createAcls, configs, questions and deleteAcls."""

ADMIN_OF_THE_TEST = "User:admin-of-these-tests"
"""A super user that no vector knows."""

FIELDS = (
    "resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type",
)  # fmt: skip
NOT_TOLD = -(2**31)
REFUSED = {
    "TOPIC": "TOPIC_AUTHORIZATION_FAILED",
    "GROUP": "GROUP_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "DELEGATION_TOKEN": "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    "USER": "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
}
DESCRIBE, DESCRIBE_TOKENS = 8, 14


@pytest.fixture(scope="module")
def service(postgres: Postgres) -> Iterator[Process]:
    with replica(postgres.new_store(), KLAMM_SUPER_USERS=ADMIN_OF_THE_TEST) as service:
        yield service.ready()


def drawn(name: str, count: int = SCENARIOS) -> list[Line]:
    """So many of the file's loaded scenarios whose ACLs createAcls takes, from all over the file."""
    usable = [
        line
        for line in lines(name)
        if line.get("loaded", True) and not any(validate_new_acl(acl_of(acl).binding) for acl in line["acls"])
    ]
    return usable[:: max(1, len(usable) // count)]


def post(service: Process, path: str, body: Json) -> Json:
    return service.post(path, {"context": context(ADMIN_OF_THE_TEST), **body})


def set_up(service: Process, line: Line) -> dict[str, str]:
    """Bring the store to the line's ACLs and configuration. Returns the ids here by the ids of the line."""
    wiped = post(service, "/v1/acls/delete", {"filters": [{}]})["results"][0]
    assert wiped["code"] == "NONE"
    bindings = [fields_of(acl) for acl in line["acls"]]
    results = post(service, "/v1/acls", {"bindings": bindings})["results"]
    assert [result["created"] for result in results] == [True] * len(bindings)
    values = {"super.users": "", **{name: str(value) for name, value in line["config"].items()}}
    values["super.users"] += f";{ADMIN_OF_THE_TEST}"
    changes = [{"name": name, "value": value} for name, value in values.items()]
    changed = post(service, "/v1/configs", {"configs": changes})["results"]
    assert {result["code"] for result in changed} == {"NONE"}
    return {acl["id"]: result["id"] for acl, result in zip(line["acls"], results, strict=True)}


def caller(request: Line) -> Json:
    return context(request["principal"], request["host"])


def fields_of(vector: Line) -> Json:
    """The seven fields of an ACL or a filter, a code from the future as an unknown word."""
    return {name: value for name, value in with_future_words(vector).items() if name in FIELDS}


def place(line: Line, request: Line) -> str:
    return f"line {line['n']} ({line['category']}): {request['principal']} from {request['host']}"


def authorized(service: Process, line: Line, answers: str) -> Iterator[str]:
    set_up(service, line)
    for request in line["requests"]:
        body = {"context": caller(request), "actions": request["actions"]}
        results = service.post("/v1/authorize", body)["results"]
        for action, result, expected in zip(request["actions"], results, request[answers], strict=True):
            if result != expected:
                yield f"{place(line, request)}: {action}: {result}, not {expected}"


def test_authorize_answers_as_kafka(service: Process) -> None:
    asked = drawn("authorize")
    assert len(asked) >= SCENARIOS
    assert [fault for line in asked for fault in authorized(service, line, "expected")] == []


def test_where_kafka_breaks_its_rules_authorize_follows_the_rules(service: Process) -> None:
    asked = drawn("authorize_quirks")
    assert len(asked) > 30
    assert [fault for line in asked for fault in authorized(service, line, "documented_rules_say")] == []


def by_resource_type(service: Process, line: Line) -> Iterator[str]:
    set_up(service, line)
    for request in line["requests"]:
        for check, expected in zip(request["checks"], request["expected"], strict=True):
            reply = service.http.post("/v1/authorize-by-resource-type", json={"context": caller(request), **check})
            answer = answer_in(reply)
            if answer != expected:
                yield f"{place(line, request)}: {check}: {answer}, not {expected}"


def answer_in(reply: httpx.Response) -> str:
    if reply.status_code == httpx.codes.BAD_REQUEST:
        assert reply.json()["code"] == "INVALID_REQUEST"
        return "ERROR:IllegalArgumentException"
    result: str = reply.json()["result"]
    return result


def test_authorize_by_resource_type_answers_as_kafka(service: Process) -> None:
    # Kafka 4.4.0 finds 0.0.0.0 in no range (quirk 4); the documented rules do.
    asked = [line for line in drawn("by_resource_type") if all(each["host"] != "0.0.0.0" for each in line["requests"])]  # noqa: S104 - an address, not a socket
    assert len(asked) >= SCENARIOS - 5
    assert [fault for line in asked for fault in by_resource_type(service, line)] == []


def shown(resource: Line, expected: Line) -> Json:
    """What REST shows of Kafka's field: nothing to who may not describe the resource (KIP-430)."""
    resource_type = resource["resource_type"]
    describe = DESCRIBE_TOKENS if resource_type == "USER" else DESCRIBE
    answer = {"error_code": 0, "code": "NONE", "authorized_operations": 0, "operations": []}
    if expected["bitfield"] >> describe & 1:
        answer |= {"authorized_operations": expected["bitfield"], "operations": expected["operations"]}
    elif resource_type != "CLUSTER":
        answer |= {"code": REFUSED[resource_type], "authorized_operations": NOT_TOLD}
        del answer["error_code"]
    return answer


def authorized_operations(service: Process, line: Line) -> Iterator[str]:
    set_up(service, line)
    for request in line["requests"]:
        body = {"context": caller(request), "resources": request["resources"]}
        results = service.post("/v1/authorized-operations", body)["results"]
        for resource, result, expected in zip(request["resources"], results, request["expected"], strict=True):
            if not {**resource, **shown(resource, expected)}.items() <= result.items():
                yield f"{place(line, request)}: {resource}: {result}, not {expected}"


def test_authorized_operations_are_kafkas(service: Process) -> None:
    asked = drawn("authorized_operations")
    assert len(asked) >= SCENARIOS
    assert [fault for line in asked for fault in authorized_operations(service, line)] == []


def test_supported_operations_are_kafkas(service: Process) -> None:
    known = list(lines("supported_operations"))
    resources = [{"resource_type": each["resource_type"], "resource_name": "kafka-cluster"} for each in known]
    results = post(service, "/v1/authorized-operations", {"resources": resources})["results"]
    assert [result["authorized_operations"] for result in results] == [
        each["bitfield_if_all_allowed"] for each in known
    ]
    assert [result["operations"] for result in results] == [each["supported_operations"] for each in known]


def filtered(service: Process, line: Line) -> Iterator[str]:
    ids = set_up(service, line)
    filters = [fields_of(wanted) for wanted in line["filters"]]
    meant = [sorted(ids[each] for each in fields["matches"]) for fields in line["filters"]]
    expectations = line["delete_all_filters_in_one_call"]
    for wanted, expected, outcome in zip(filters, meant, expectations, strict=True):
        body = {"context": context(ADMIN_OF_THE_TEST), "filter": wanted, "limit": 1000}
        reply = service.http.post("/v1/acls/search", json=body)
        if reply.is_success != ("error" not in outcome):
            yield f"line {line['n']}: {wanted}: {reply.status_code}, but {outcome}"
        elif reply.is_success and sorted(acl["id"] for acl in reply.json()["acls"]) != expected:
            yield f"line {line['n']}: {wanted}: {reply.text}"
    results = post(service, "/v1/acls/delete", {"filters": filters})["results"]
    for wanted, result, outcome in zip(filters, results, expectations, strict=True):
        answer: Json = {"error": "InvalidRequestException", "message": result["error_message"]}
        if result["code"] == "NONE":
            answer = {"deleted": sorted(acl["id"] for acl in result["matches"])}
        kafkas = (
            {**outcome, "deleted": sorted(ids[each] for each in outcome["deleted"])}
            if "deleted" in outcome
            else outcome
        )
        if answer != kafkas:
            yield f"line {line['n']}: delete {wanted}: {answer}, not {kafkas}"
    left = post(service, "/v1/acls/search", {"filter": {}, "limit": 1000})["acls"]
    if sorted(acl["id"] for acl in left) != sorted(ids[each] for each in line["left_after_delete"]):
        yield f"line {line['n']}: left {left}"


def test_filters_describe_and_delete_as_kafka(service: Process) -> None:
    asked = drawn("filters")
    assert len(asked) >= SCENARIOS
    assert [fault for line in asked for fault in filtered(service, line)] == []


VALIDATION = list(lines("validation"))
NULLS = ("resource name null", "principal null", "host null")
"""Kafka's wire can't carry them either; here the whole request is refused, naming the field."""
CREATES = [
    line
    for line in VALIDATION
    if line["kind"] == "create" and line["case"] not in (*NULLS, "host CIDR while the metadata version is older")
]


def test_create_acls_refuses_what_kafka_refuses_in_its_words(service: Process) -> None:
    set_up(service, {"acls": [], "config": {}})
    bindings = [fields_of(line["acl"]) for line in CREATES]
    results = post(service, "/v1/acls", {"bindings": bindings})["results"]
    faults = []
    for line, result in zip(CREATES, results, strict=True):
        text = None
        if line["rejected_by"] is not None:
            text = MAPPED[line["case"]] if line.get("whole_request_fails") else line["error_message_on_the_wire"]
        expected = (0 if text is None else 42, "NONE" if text is None else "INVALID_REQUEST", text)
        if (result["error_code"], result["code"], result["error_message"]) != expected:
            faults.append(f"{line['case']}: {result}, not {expected}")
    assert faults == []


@pytest.mark.parametrize("case", NULLS)
def test_a_null_in_a_new_acl_is_refused_naming_the_field(service: Process, case: str) -> None:
    [line] = [line for line in VALIDATION if line["kind"] == "create" and line["case"] == case]
    [field] = [name for name, value in line["acl"].items() if value is None]
    body = {"context": context(ADMIN_OF_THE_TEST), "bindings": [line["acl"]]}
    reply = service.http.post("/v1/acls", json=body)
    assert reply.status_code == 400
    assert [error["pointer"] for error in reply.json()["errors"]] == [f"/bindings/0/{field}"]


def test_delete_acls_refuses_what_kafka_refuses_in_its_words(service: Process) -> None:
    five: list[Json] = [
        {
            "resource_type": binding.resource_type.name,
            "resource_name": binding.resource_name,
            "pattern_type": binding.pattern_type.name,
            "principal": binding.principal,
            "host": binding.host,
            "operation": binding.operation.name,
            "permission_type": binding.permission_type.name,
            "id": str(n),
        }
        for n, binding in enumerate(FIVE)
    ]
    asked = [line for line in VALIDATION if line["kind"] == "delete"]
    assert len(asked) > 20
    for line in asked:
        set_up(service, {"acls": five, "config": {}})
        [result] = post(service, "/v1/acls/delete", {"filters": [fields_of(line["filter"])]})["results"]
        if line["rejected_by"] is None:
            assert result["code"] == "NONE"
            assert len(result["matches"]) == line["deleted_of_5"], line["case"]
            continue
        text = line["controller_alone"]["error_message_on_the_wire"]
        assert result["error_message"] == MAPPED_FILTERS.get(line["case"], text)
        assert (result["error_code"], result["matches"]) == (42, [])


def test_super_users_are_read_as_by_kafka(service: Process) -> None:
    for line in (line for line in VALIDATION if line["kind"] == "super.users"):
        change = {"name": "super.users", "value": f"{line['case']};{ADMIN_OF_THE_TEST}"}
        [result] = post(service, "/v1/configs", {"configs": [change]})["results"]
        assert result["error_message"] == line.get("exception_message"), line["case"]
        if "exception" not in line:
            # Java prints a set: [User:a, User:b].
            for user in filter(None, line["super_users"][1:-1].split(", ")):
                asked = {"context": context(user), "operation": "ALTER", "resource_type": "CLUSTER"}
                assert service.post("/v1/authorize-by-resource-type", asked)["result"] == "ALLOWED"


def test_before_the_load_as_kafka() -> None:
    """The store can't be reached, ever: only start-up super users are answered."""
    unloaded = [line for line in lines("authorize") if not line.get("loaded", True)]
    by_config: dict[tuple[str, str], list[Line]] = {}
    for line in unloaded:
        values = [str(value) for value in line["config"].values()]
        by_config.setdefault((values[0], values[1]), []).append(line)
    for (super_users, allow_everyone), some in islice(by_config.items(), 3):
        settings = {"KLAMM_SUPER_USERS": super_users, "KLAMM_ALLOW_EVERYONE_IF_NO_ACL_FOUND": allow_everyone}
        with over_socket(settings={**settings, "KLAMM_DATABASE_URL": "postgresql://x@127.0.0.1:9/nowhere"}) as service:
            assert [fault for line in some for fault in unanswered(service, line)] == []


def unanswered(service: Process, line: Line) -> Iterator[str]:
    for request in line["requests"]:
        for action, expected in zip(request["actions"], request["expected"], strict=True):
            reply = service.http.post("/v1/authorize", json={"context": caller(request), "actions": [action]})
            answer = reply.json()["results"][0] if reply.is_success else f"{reply.status_code} {reply.json()['code']}"
            wanted = "503 AUTHORIZER_NOT_READY" if expected == "ERROR:AuthorizerNotReadyException" else expected
            if answer != wanted:
                yield f"{place(line, request)}: {action}: {answer}, not {wanted}"
