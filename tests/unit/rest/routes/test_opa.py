"""The OPA door's decisions: a strict boolean for what authorize decides, and what is kept of it."""

import random
from pathlib import Path

import pytest

from app.core.kafka.codes import AclOperation
from tests.cases import each_case
from tests.unit.rest.harness import Service, allow
from tests.unit.rest.opa_bodies import (
    HEADER,
    OPA_PATH,
    REFUSED,
    ask,
    ask_in_vain,
    asked,
    by_type,
    decision_of,
    refusal_of,
    spoiled,
    with_context,
)
from tests.unit.rest.test_authorize_decision_log import logged


async def test_a_decision_is_a_strict_boolean(service: Service) -> None:
    await service.grant([allow("READ", "orders")])
    assert await ask(service, asked("READ"))
    assert await ask(service, asked("DESCRIBE"))
    assert not await ask(service, asked("WRITE"))
    assert not await ask(service, asked("READ", principal="bob"))


async def test_it_decides_as_authorize_does(service: Service) -> None:
    await service.grant(
        [
            allow("READ", "ord", pattern="PREFIXED"),
            allow("ALL", "*", type_="GROUP", principal="User:*"),
            allow("WRITE", "orders", permission="DENY", host="10.1.2.3"),
            allow("ALL", "orders", principal="User:bob"),
            allow("IDEMPOTENT_WRITE", "kafka-cluster", type_="CLUSTER"),
        ]
    )
    answers = []
    for principal in ("alice", "bob", "admin"):
        context = {"principal": f"User:{principal}", "client_address": "10.1.2.3"}
        for type_, name in (("TOPIC", "orders"), ("TOPIC", "x"), ("GROUP", "g"), ("CLUSTER", "kafka-cluster")):
            for operation in AclOperation.__members__:
                action = {"operation": operation, "resource_type": type_, "resource_name": name}
                (expected,) = (await service.authorize(action, context=context))["results"]
                body = asked(operation, name, type_=type_, principal=principal)
                answers.append(await ask(service, body))
                assert answers[-1] == (expected == "ALLOWED"), (principal, operation, type_, name)
    assert set(answers) == {True, False}


@pytest.mark.parametrize(
    "header",
    [
        {"name": HEADER, "headerVersion": 2},
        {"data": HEADER, "headerVersion": 2},
        {"name": None, "data": HEADER},
        {"data": {**HEADER, "unknownTaggedFields": []}, "size": 9},
    ],
)
async def test_the_header_comes_in_two_shapes(service: Service, header: object) -> None:
    assert not await ask(service, with_context(header=header))
    assert "for request = Metadata with" in service.audit_lines()[0]


@pytest.mark.parametrize("header", [None, {}, {"name": {}}, {"headerVersion": 2}, {"later": HEADER}])
async def test_a_header_may_be_absent(service: Service, header: object) -> None:
    assert not await ask(service, with_context(header=header))
    assert len(service.audit_lines()) == 1


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("/10.1.2.3", "10.1.2.3"),
        ("client.example.com/10.1.2.3", "10.1.2.3"),
        ("10.1.2.3", "10.1.2.3"),
        ("/0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
        ("localhost/0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
        ("/fe80:0:0:0:0:0:0:1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("/fe80:0:0:0:0:0:0:1%2", "fe80:0:0:0:0:0:0:1%2"),
    ],
)
async def test_addresses_come_as_java_prints_them(service: Service, address: str, host: str) -> None:
    await service.grant([allow("READ", "orders", host=host)])
    assert await ask(service, asked(address=address))
    assert not await ask(service, asked(address="/10.9.9.9"))


@each_case("address", ["", "/", "localhost", "/localhost", "host/<unresolved>", "/10.1.2", "/10.1.2.3 "])
async def test_what_is_no_address_is_no_reason_to_decide(service: Service, address: str) -> None:
    await service.grant([allow("READ", "orders")])
    assert await ask_in_vain(service, asked(address=address)) == REFUSED


async def test_unknown_fields_are_passed_over_here(service: Service) -> None:
    await service.grant([allow("READ", "orders")])
    body = asked(later={"deep": [1, {"er": None}]})
    body["later"] = body["input"]["later"] = body["input"]["requestContext"]["principal"]["later"] = "x:y"
    body["input"]["action"]["resourcePattern"]["later"] = 1.5
    assert await ask(service, body)


@pytest.mark.parametrize("place", ["requestContext", "principal"])
async def test_groups_are_refused_and_neither_counted_nor_passed_over(service: Service, place: str) -> None:
    await service.grant([allow("READ", "orders"), allow("READ", "orders", principal="Group:pii", permission="DENY")])
    for groups in (["pii"], "pii", {"pii": True}, 7, [], None):
        for body in (asked(), by_type("READ", "TOPIC")):
            context = body["input"]["requestContext"]
            (context if place == "requestContext" else context["principal"])["groups"] = groups
            if groups:
                assert await ask_in_vain(service, body) == REFUSED
            else:
                assert await ask(service, body)


@pytest.mark.parametrize("type_", ["User", "Group"])
async def test_a_principal_has_its_type(service: Service, type_: str) -> None:
    await service.grant([allow("READ", "orders", principal="Group:CN=a:b,O=c")])
    body = with_context(principal={"principalType": type_, "name": "CN=a:b,O=c"})
    assert await ask(service, body) == (type_ == "Group")


@pytest.mark.parametrize("type_", ["", "User:a"])
async def test_a_type_that_could_make_one_principal_of_another_is_refused(service: Service, type_: str) -> None:
    assert await ask_in_vain(service, with_context(principal={"principalType": type_, "name": "b"})) == REFUSED


@pytest.mark.parametrize("principal", ["alice", "bob", "carol", "admin"])
async def test_authorize_by_resource_type_comes_in_disguise(service: Service, principal: str) -> None:
    await service.grant(
        [
            allow("WRITE", "orders"),
            allow("WRITE", "a", pattern="PREFIXED", principal="User:bob"),
            allow("WRITE", "*", principal="User:carol"),
            allow("WRITE", "*", principal="User:carol", permission="DENY"),
        ]
    )
    context = {"principal": f"User:{principal}", "client_address": "10.1.2.3"}
    expected = {"alice": True, "bob": True, "carol": False, "admin": True}
    for type_ in ("TOPIC", "GROUP"):
        question = {"context": context, "operation": "WRITE", "resource_type": type_}
        reply = (await service.post("/v1/authorize-by-resource-type", question)).json()
        allowed = await ask(service, by_type("WRITE", type_, principal))
        assert allowed == (reply["result"] == "ALLOWED")
        assert allowed == (expected[principal] if type_ == "TOPIC" else principal == "admin")


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ({"name": "", "patternType": "PREFIXED"}, 1),
        ({"name": "a", "patternType": "PREFIXED"}, 0),
        ({"name": "a", "patternType": "PREFIXED"}, 1),
        ({"name": "", "patternType": "MATCH"}, 0),
        ({"name": "a", "patternType": "later"}, 1),
    ],
)
async def test_other_patterns_are_no_disguise(service: Service, pattern: dict[str, object], count: int) -> None:
    body = asked("READ", resourcePattern={"resourceType": "TOPIC", **pattern}, resourceReferenceCount=count)
    assert await ask_in_vain(service, body) == REFUSED


@pytest.mark.parametrize(("operation", "type_"), [("LATER", "TOPIC"), ("READ", "LATER"), ("ANY", "TOPIC")])
async def test_the_disguise_is_refused_as_its_own_route_refuses(service: Service, operation: str, type_: str) -> None:
    assert await ask_in_vain(service, by_type(operation, type_)) == REFUSED


async def test_an_empty_name_is_a_name(service: Service) -> None:
    await service.grant([allow("READ", "*")])
    assert await ask(service, asked("READ", ""))


async def test_a_cluster_that_is_named_must_be_the_store_s(service: Service) -> None:
    await service.grant([allow("READ", "orders")])
    own = service.authorizer.image.cluster_id
    assert own is not None
    assert await ask(service, asked(), f"{OPA_PATH}/{own}")
    for path in (f"{OPA_PATH}/{own}x", f"{OPA_PATH}/other", f"{OPA_PATH}/%22"):
        assert await ask_in_vain(service, asked(), path) == (409, "INCONSISTENT_CLUSTER_ID")


async def test_before_the_load_any_cluster_may_be_named(unloaded: Service) -> None:
    assert await ask(unloaded, asked(principal="admin"), f"{OPA_PATH}/any")


async def test_the_plugin_s_wishes_about_the_audit_are_honoured(service: Service) -> None:
    await service.grant([allow("READ", "orders")])
    await service.configure("audit.level", "DEBUG")
    await ask(service, asked("READ"))
    await ask(service, asked("READ", logIfAllowed=False))
    await ask(service, asked("WRITE", resourceReferenceCount=7))
    await ask(service, asked("WRITE", logIfDenied=False))
    await ask(service, by_type())
    lines = [line.split("]", 1)[1].partition(" based on ")[0] for line in service.audit_lines()]
    end = "from host = 10.1.2.3 on resource = Topic:LITERAL:orders for request = Metadata with resourceRefCount ="
    assert lines == [
        f" DEBUG Principal = User:alice is Allowed operation = READ {end} 1",
        f" INFO Principal = User:alice is Denied operation = WRITE {end} 7",
    ]


async def test_decisions_are_in_the_decision_log(tmp_path: Path) -> None:
    async with logged(tmp_path) as it:
        await it.service.grant([allow("READ", "orders")])
        ids = await it.ids()
        for body in (asked("READ", logIfAllowed=False), asked("WRITE", logIfDenied=False), by_type(), {}):
            await it.post(body, OPA_PATH)
        lines = it.lines()
    shown = (
        *("principal", "host", "listener_name", "security_protocol", "request_type", "request_version"),
        *("client_id", "correlation_id", "operation", "resource_name", "result"),
    )
    about = ["User:alice", "10.1.2.3", "CLIENT", "SASL_PLAINTEXT", 3, 13, "adminclient-1", 3]
    assert [[line[key] for key in shown] for line in lines] == [
        [*about, "READ", "orders", "ALLOWED"],
        [*about, "WRITE", "orders", "DENIED"],
    ]
    assert lines[0]["acl_id"] == ids["orders", "ALLOW"]


async def test_requests_are_counted_as_an_operation_of_their_own(service: Service) -> None:
    await service.grant([allow("READ", "orders")])
    for body in (asked("READ"), asked("WRITE"), by_type(), {}):
        await service.post(OPA_PATH, body)
    await service.client.get(OPA_PATH)
    await service.post("/v1/data/other", asked())
    page = (await service.client.get("/metrics")).text
    assert 'klamm_http_requests_total{operation="opaAuthorize",status="2xx"} 3.0' in page
    assert 'klamm_http_requests_total{operation="opaAuthorize",status="4xx"} 2.0' in page
    assert 'klamm_http_requests_total{operation="other",status="4xx"} 1.0' in page
    assert 'klamm_http_requests_total{operation="authorize"' not in page
    assert 'klamm_decisions_total{result="ALLOWED",rule="MatchingAcl"} 1.0' in page
    assert 'klamm_decisions_total{result="DENIED",rule="DefaultDeny"} 2.0' in page


def test_it_stands_in_no_document() -> None:
    document = (Path(__file__).parents[4] / "openapi.json").read_text(encoding="utf-8")
    assert "/v1/data" not in document
    assert "opaAuthorize" not in document


async def test_each_reply_has_a_request_id(service: Service) -> None:
    replies = [await service.post(OPA_PATH, body) for body in (asked(), {})]
    assert [reply.headers["x-request-id"] != "" for reply in replies] == [True, True]


@pytest.mark.slow
async def test_whatever_comes_json_is_a_decision_and_a_decision_only(service: Service) -> None:
    await service.grant([allow("READ", "orders"), allow("WRITE", "a", pattern="PREFIXED")])
    seed = random.randrange(1 << 30)
    bodies = spoiled(random.Random(seed))
    decided = 0
    for _ in range(2_000):
        body = next(bodies)
        reply = await service.post_raw(OPA_PATH, body)
        try:
            if reply.status_code == 200:
                decided += 1
                decision_of(reply)
            else:
                assert refusal_of(reply) == REFUSED
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {body!r}") from fault
    assert 0 < decided < 2_000
