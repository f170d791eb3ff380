"""Since when an ACL is there: told of each, however much its resource has changed since."""

import re
from dataclasses import replace
from typing import Any

import pytest

from app.console import since, timeline
from app.core.past import ChangesPage, ChangesQuestion, KnownSince
from app.core.token import Token
from tests.browser import Browser, Seen
from tests.gate.unit.console.test_guards import HOSTILE, check_harmless
from tests.klamm import InProcess, acl
from tests.past import FakePast

ORDERS = "/console/resource?type=TOPIC&name=orders"
CHANGES = 5
"""One more than a resource's page looks through here."""


def words(page: Seen) -> str:
    return " ".join(page.text.split())


def said(page: Seen, principal: str) -> list[tuple[str, str]]:
    """What the ACLs that are listed say of this principal's: by whom, or before when."""
    listed = words(page).partition("ACLs that cover it")[2].partition("Last changes")[0]
    about = listed.partition(f"to {principal} ")[2].partition(" ALLOW ")[0]
    return re.findall(r"since (before )?\S+ \S+ UTC(?: by (\S+))?", about)


@pytest.fixture
async def then(service: InProcess, monkeypatch: pytest.MonkeyPatch) -> str:
    """User:bob's ACL lies behind the last changes of its topic; the token of the state after it."""
    monkeypatch.setattr(timeline, "_CHANGES", CHANGES - 1)
    await service.create(acl("orders", "User:bob"))
    token = str(service.authorizer.image.token)
    await service.create(*(acl("orders", f"User:u{at}") for at in range(CHANGES)))
    for at in range(CHANGES):
        await remove(service, f"User:u{at}")
    return token


async def remove(service: InProcess, principal: str) -> None:
    context = {"principal": "User:admin", "client_address": "127.0.0.1"}
    reply = await service.send("/v1/acls/delete", {"context": context, "filters": [{"principal": principal}]})
    assert reply.status_code == 200, reply.text


async def test_it_is_found_by_the_acl_itself(service: InProcess, browser: Browser, then: str) -> None:
    assert said(await browser.go(ORDERS), "User:bob") == [("", "User:admin")]
    assert said(await browser.go(f"{ORDERS}&at={then}"), "User:bob") == [("", "User:admin")]
    await remove(service, "User:bob")
    await service.create(acl("orders", "User:bob"))
    for at in range(CHANGES):
        await service.create(acl("orders", f"User:late{at}"))
        await remove(service, f"User:late{at}")
    page = await browser.go(ORDERS)
    assert said(page, "User:bob") == [("", "User:admin")]
    assert "not looked up" not in page.text


async def test_what_no_record_tells_is_older_than_all_of_them(
    service: InProcess, browser: Browser, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, start = FakePast.changes, Token.parse(then).offset + 1

    async def trimmed(past: FakePast, question: ChangesQuestion) -> ChangesPage:
        page = await whole(past, question)
        kept = [each for each in page.changes if each.record.offset >= start]
        first = past.store.tables.records[start - 1].recorded_at
        return replace(page, changes=kept, known_since=KnownSince(Token(past.store.epoch, start), first))

    monkeypatch.setattr(FakePast, "changes", trimmed)
    assert said(await browser.go(ORDERS), "User:bob") == [("before ", "")]
    assert "as far as the records go" in (await browser.go(ORDERS)).text
    await service.create(acl("other", "User:bob"))
    assert "since before" not in (await browser.go("/console/resource?type=TOPIC&name=other")).text


async def test_a_page_asks_of_so_many_and_says_so(
    service: InProcess, browser: Browser, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert then
    monkeypatch.setattr(since, "_MOST", 0)
    page = await browser.go(ORDERS)
    assert said(page, "User:bob") == []
    assert "When 1 ACL was created was not looked up" in words(page)
    assert service.authorizer.image.acl_count == 1


async def test_an_acl_that_was_changed_often_is_told_as_not_looked_up(
    service: InProcess, browser: Browser, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(since, "_CHANGES", 1)
    one: dict[str, Any] = {"resource_type": "TOPIC", "resource_name": "orders", "principal": "User:bob"}
    one |= {"operation": "READ", "permission_type": "ALLOW", "host": "*", "pattern_type": "LITERAL", "owner": "team"}
    context = {"principal": "User:admin", "client_address": "127.0.0.1"}
    assert (await service.send("/v1/acls", {"context": context, "bindings": [one]})).status_code == 200
    for at in range(CHANGES):
        await service.create(acl("orders", f"User:u{at}"))
        await remove(service, f"User:u{at}")
    assert "When 1 ACL was created was not looked up" in words(await browser.go(ORDERS))
    monkeypatch.setattr(since, "_CHANGES", 100)
    assert said(await browser.go(ORDERS), "User:bob") == [("", "User:admin")]
    assert then


@pytest.mark.parametrize("odd", [each for each in HOSTILE if len(each) < 4_000])
async def test_hostile_names_are_asked_about_as_they_are(
    service: InProcess, browser: Browser, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "_CHANGES", 1)
    await service.create(acl("orders", f"User:{odd}"))
    await service.create(acl("orders", "User:bob"))
    page = await browser.go(ORDERS)
    check_harmless(page.reply.text)
    assert words(page).count("UTC by User:admin") >= 4, "two ACLs, in the matrix and in the list"
