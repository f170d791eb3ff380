"""Plans in addresses that no page has made: they take away nothing that is not shown, and none is answered with 500."""

import json
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence

import pytest

from tests.browser import Browser
from tests.klamm import InProcess, acl

ONE = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:bob",
    "host": "*",
    "operation": "READ",
    "permission_type": "ALLOW",
}

Acls = Sequence[Mapping[str, object]]


def crafted(create: Acls = (), delete: Acls = ()) -> str:
    return json.dumps({"create": create, "delete": delete})


async def check_refused(service: InProcess, browser: Browser, change: str, says: str) -> None:
    """By the page of the plan, and by the change itself."""
    packed = urlsafe_b64encode(zlib.compress(change.encode())).decode()
    assert says in (await browser.go(f"/console/plan?change={packed}", 400)).text
    before = service.authorizer.image.token
    fields = (await browser.go("/console/create")).form("Review").fields
    sent = {"form_token": fields["form_token"], "change": change, "token": str(before)}
    reply = await browser.client.post("/console/apply", data=sent)
    assert reply.status_code == 400, reply.text
    assert service.authorizer.image.token == before


@pytest.mark.parametrize(
    "wide",
    [
        {"operation": "ANY"},
        {"resource_type": "ANY"},
        {"permission_type": "ANY"},
        {"pattern_type": "ANY"},
        {"pattern_type": "MATCH"},
        {"operation": "a word of a later release"},
    ],
)
async def test_a_plan_removes_no_acl_that_it_does_not_show(
    service: InProcess, browser: Browser, wide: Mapping[str, str]
) -> None:
    await service.create(
        acl("orders", "User:bob"),
        acl("orders", "User:bob", permission_type="DENY"),
        acl("orders", "User:bob", "WRITE"),
        acl("ord", "User:bob", pattern_type="PREFIXED"),
    )
    await check_refused(service, browser, crafted(delete=[{**ONE, **wide}]), "does not say which ACLs to change")
    assert service.authorizer.image.acl_count == 4


@pytest.mark.parametrize("field", ["resource_name", "principal", "host"])
async def test_a_removal_of_what_is_no_text_is_refused(service: InProcess, browser: Browser, field: str) -> None:
    await check_refused(service, browser, crafted(delete=[{**ONE, field: "User:\ud800"}]), "surrogate")


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"expires_at": "0001-01-01T00:00:00+14:00"}, "does not say which ACLs to change"),
        ({"expires_at": "9999-12-31T23:59:59-14:00"}, "does not say which ACLs to change"),
        ({"expires_at": 5}, "does not say which ACLs to change"),
        ({"expires_at": "2030-01-01T00:00:00.5Z"}, "whole second"),
        ({"owner": 5}, "does not say which ACLs to change"),
        ({"owner": []}, "does not say which ACLs to change"),
        ({"owner": "\ud800"}, "U+D800"),
    ],
)
async def test_terms_that_no_acl_can_have_are_refused(
    service: InProcess, browser: Browser, terms: Mapping[str, object], says: str
) -> None:
    await check_refused(service, browser, crafted([{**ONE, **terms}]), says)


async def test_a_plan_of_nothing_is_refused(service: InProcess, browser: Browser) -> None:
    await check_refused(service, browser, crafted(), "does not say which ACLs to change")


async def test_a_plan_that_makes_and_removes_the_same_acl_is_refused(service: InProcess, browser: Browser) -> None:
    """It would be shown as one that takes nothing, and is made in the other order: the DENY would go."""
    await service.create(acl("orders", "User:bob", permission_type="DENY"))
    deny = {**ONE, "permission_type": "DENY"}
    await check_refused(service, browser, crafted([deny], [deny]), "does not say which ACLs to change")
