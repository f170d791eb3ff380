"""authorize with `with_rules`: the rule and the ACL of each result, at the offset of the results."""

from typing import Any

import pytest

from tests.unit.rest.harness import ADMIN, ALICE, READ_ORDERS, Service, allow, serving
from tests.unit.rest.test_bad_input import check_problem


def action(name: str, operation: str = "READ") -> dict[str, str]:
    return {"operation": operation, "resource_type": "TOPIC", "resource_name": name}


async def ids(service: Service) -> dict[str, str]:
    found = (await service.post("/v1/acls/search", {"context": ADMIN, "filter": {}})).json()["acls"]
    return {each["resource_name"]: each["id"] for each in found}


async def test_each_result_has_its_rule_and_acl(service: Service) -> None:
    await service.grant(
        [allow("READ", "orders"), allow("READ", "pay", pattern="PREFIXED"), allow("READ", "secret", permission="DENY")]
    )
    of = await ids(service)
    actions = [READ_ORDERS, action("payments"), action("secret"), action("nowhere"), action("orders", "WRITE")]
    reply = await service.authorize(*actions, with_rules=True)
    assert reply["results"] == ["ALLOWED", "ALLOWED", "DENIED", "DENIED", "DENIED"]
    assert [(each["rule"], each["acl_id"]) for each in reply["rules"]] == [
        ("MatchingAcl", of["orders"]),
        ("MatchingAcl", of["pay"]),
        ("MatchingAcl", of["secret"]),
        ("DefaultDeny", None),
        ("DefaultDeny", None),
    ]
    assert list(reply) == ["results", "rules", "token"]


async def test_a_super_user_passes_by_no_acl(service: Service) -> None:
    reply = await service.authorize(READ_ORDERS, context=ADMIN, with_rules=True)
    assert reply["rules"] == [{"rule": "SuperUser", "acl_id": None}]


async def test_resources_without_acls_may_be_open_to_all(service: Service) -> None:
    await service.configure("allow.everyone.if.no.acl.found", "true")
    reply = await service.authorize(READ_ORDERS, with_rules=True)
    assert reply["rules"] == [{"rule": "DefaultAllow", "acl_id": None}]


@pytest.mark.parametrize("more", [{}, {"with_rules": False}])
async def test_nobody_gets_them_who_does_not_ask(service: Service, more: dict[str, Any]) -> None:
    assert set(await service.authorize(READ_ORDERS, **more)) == {"results", "token"}


@pytest.mark.parametrize("wrong", [1, "true", None, []])
async def test_what_is_no_truth_value_is_refused(service: Service, wrong: object) -> None:
    body = {"context": ALICE, "actions": [READ_ORDERS], "with_rules": wrong}
    problem = check_problem(await service.post("/v1/authorize", body), 400)
    assert [each["pointer"] for each in problem["errors"]] == ["/with_rules"]


async def test_without_an_authorizer_everything_is_allowed_as_to_a_super_user() -> None:
    async with serving(enabled=False) as service:
        reply = await service.authorize(READ_ORDERS, with_rules=True)
        assert reply["rules"] == [{"rule": "SuperUser", "acl_id": None}]
