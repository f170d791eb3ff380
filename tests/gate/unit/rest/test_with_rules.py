"""authorize with `with_rules`: the rule and the ACL of each result, at the offset of the results."""

from typing import Any

import pytest

from tests.gate.unit.rest.test_bad_input import check_problem
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl, in_process


def action(name: str, operation: str = "READ") -> dict[str, str]:
    return {"operation": operation, "resource_type": "TOPIC", "resource_name": name}


async def ids(service: InProcess) -> dict[str, str]:
    found = (await service.send("/v1/acls/search", {"context": ADMIN, "filter": {}})).json()["acls"]
    return {each["resource_name"]: each["id"] for each in found}


async def test_each_result_has_its_rule_and_acl(service: InProcess) -> None:
    await service.create(acl("orders"), acl("pay", pattern_type="PREFIXED"), acl("secret", permission_type="DENY"))
    of = await ids(service)
    actions = [READ_ORDERS, action("payments"), action("secret"), action("nowhere"), action("orders", "WRITE")]
    reply = await service.post("/v1/authorize", {"context": ALICE, "actions": [*actions], "with_rules": True})
    assert reply["results"] == ["ALLOWED", "ALLOWED", "DENIED", "DENIED", "DENIED"]
    assert [(each["rule"], each["acl_id"]) for each in reply["rules"]] == [
        ("MatchingAcl", of["orders"]),
        ("MatchingAcl", of["pay"]),
        ("MatchingAcl", of["secret"]),
        ("DefaultDeny", None),
        ("DefaultDeny", None),
    ]
    assert list(reply) == ["results", "rules", "token"]


async def test_a_super_user_passes_by_no_acl(service: InProcess) -> None:
    reply = await service.post("/v1/authorize", {"context": ADMIN, "actions": [READ_ORDERS], "with_rules": True})
    assert reply["rules"] == [{"rule": "SuperUser", "acl_id": None}]


async def test_resources_without_acls_may_be_open_to_all(service: InProcess) -> None:
    await service.configure("allow.everyone.if.no.acl.found", "true")
    reply = await service.post("/v1/authorize", {"context": ALICE, "actions": [READ_ORDERS], "with_rules": True})
    assert reply["rules"] == [{"rule": "DefaultAllow", "acl_id": None}]


@pytest.mark.parametrize("more", [{}, {"with_rules": False}])
async def test_nobody_gets_them_who_does_not_ask(service: InProcess, more: dict[str, Any]) -> None:
    assert set(await service.post("/v1/authorize", {"context": ALICE, "actions": [READ_ORDERS], **more})) == {
        "results",
        "token",
    }


@pytest.mark.parametrize("wrong", [1, "true", None, []])
async def test_what_is_no_truth_value_is_refused(service: InProcess, wrong: object) -> None:
    body = {"context": ALICE, "actions": [READ_ORDERS], "with_rules": wrong}
    problem = check_problem(await service.send("/v1/authorize", body), 400)
    assert [each["pointer"] for each in problem["errors"]] == ["/with_rules"]


async def test_without_an_authorizer_everything_is_allowed_as_to_a_super_user() -> None:
    async with in_process(enabled=False) as service:
        reply = await service.post("/v1/authorize", {"context": ALICE, "actions": [READ_ORDERS], "with_rules": True})
        assert reply["rules"] == [{"rule": "SuperUser", "acl_id": None}]
