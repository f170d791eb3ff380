"""The history, and undoing: what a plan to take a change back holds."""

import json
from typing import Any

import pytest

from app.console.made import undo_of
from tests.browser import Browser
from tests.gate.unit.console.test_guards import HOSTILE, check_harmless
from tests.klamm import InProcess, acl

ACL = {
    "id": "4f3e2d1c-6b7a-4859-9c0d-1e2f3a4b5c55",
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:bob",
    "host": "*",
    "operation": "READ",
    "permission_type": "ALLOW",
    "expires_at": "2026-11-30T18:00:00Z",
    "owner": "team",
}
BINDING = {name: value for name, value in ACL.items() if name not in ("id", "expires_at", "owner")}


def undone(change: str, **more: Any) -> Any:  # noqa: ANN401 - JSON
    plan = undo_of([{"change": change, "acl": ACL, "prior": None, "config": None, **more}])
    return None if plan is None else json.loads(plan)


def test_each_kind_of_change_is_taken_back_exactly() -> None:
    (gone,) = undone("CREATED")["delete"]
    assert {name: gone[name] for name in BINDING} == BINDING
    assert undone("CREATED")["create"] == []
    assert undone("DELETED") == {
        "create": [{**BINDING, "expires_at": "2026-11-30T18:00:00Z", "owner": "team"}],
        "delete": [],
    }
    before = {"expires_at": None, "owner": "others"}
    assert undone("CHANGED", prior=before)["create"] == [{**BINDING, **before}]
    assert undone("CONFIGURED", acl=None) is None


async def test_a_removal_is_undone_by_a_plan(service: InProcess, browser: Browser) -> None:
    await service.create(acl("orders", "User:bob"))
    form = (await browser.go("/console/acls?principal=User:bob")).form("Remove")
    await browser.send((await browser.send(form)).form("Remove 1 ACL"), comment="OPS-7")
    page = await browser.go("/console/history")
    assert "OPS-7" in page.text
    assert "User:admin" in page.text
    plan = await browser.send(page.form("Undo"))
    assert "Gained" in plan.text
    page = await browser.send(plan.form("Create 1 ACL"))
    assert page.reply.url.path == "/console/history"
    assert service.authorizer.image.acl_count == 1


async def test_the_history_is_filtered_and_what_is_wrong_with_a_filter_is_said(
    service: InProcess, browser: Browser
) -> None:
    assert "Nothing has changed yet" in (await browser.go("/console/history")).text
    await service.create(acl("orders", "User:bob"))
    assert "Nothing of this kind" in (await browser.go("/console/history?principal=User:eve")).text
    page = await browser.go("/console/history?since=yesterday", 400)
    assert 'value="yesterday"' in page.reply.text


async def test_a_resource_and_a_principal_show_their_last_changes(service: InProcess, browser: Browser) -> None:
    await service.create(acl("orders", "User:bob"))
    for path in ("/console/resource?type=TOPIC&name=orders", "/console/principal?principal=User:bob"):
        assert "by User:admin" in " ".join((await browser.go(path)).text.split())


@pytest.mark.parametrize("odd", HOSTILE)
async def test_hostile_names_are_text_in_the_history(service: InProcess, browser: Browser, odd: str) -> None:
    await service.create(acl(odd, f"User:{odd}"[:32_767]))
    check_harmless((await browser.go("/console/history")).reply.text)


async def test_pages_have_addresses_of_a_state(service: InProcess, browser: Browser) -> None:
    await service.create(acl("orders", "User:bob"))
    then = str(service.authorizer.image.token)
    await service.create(acl("orders", "User:late"))
    for path in ("/console/acls?", "/console/resource?type=TOPIC&name=orders&"):
        now = await browser.go(path)
        assert "User:late" in now.text
        frozen = await browser.go(f"{path}at={then}")
        assert "User:bob" in frozen.text
        assert "User:late" not in frozen.text
        assert "As things stood at" in frozen.text
        assert not {"Remove", "Undo"} & set(frozen.buttons)
        links = [each["href"] for _, each in now.elements if "at=" in each.get("href", "")]
        assert any(str(service.authorizer.image.token).replace(":", "%3A") in each for each in links)
    asked = "q=User:late+READ+topic:orders+from+10.1.2.3"
    assert "Allowed" in (await browser.go(f"/console?{asked}")).text
    page = await browser.go(f"/console?{asked}&at={then}")
    assert "Denied" in page.text
    assert "Allow for good" not in page.buttons
    assert "Nothing: no ACL" in (await browser.go(f"/console/principal?principal=User:late&at={then}")).text
    assert (await browser.client.get("/console/acls?at=yesterday")).status_code == 400


async def test_the_history_has_an_address_of_a_state(service: InProcess, browser: Browser) -> None:
    await service.create(*(acl(f"t-{at:02}", "User:bob") for at in range(60)))
    then = str(service.authorizer.image.token)
    now = await browser.go("/console/history?principal=User:bob")
    (link,) = [each["href"] for _, each in now.elements if "at=" in each.get("href", "")]
    await service.create(acl("t-00", "User:late"), acl("t-99", "User:bob"))
    page = await browser.go(link)
    assert page.reply.url.params["at"] == then
    assert "As things stood at" in page.text
    assert "t-99" not in page.text
    assert "t-59" in page.text
    assert "Undo" not in page.buttons
    assert not [each for _, each in page.elements if "hx-sse:connect" in each], "the past does not change"
    (older,) = [each["href"] for _, each in page.elements if each.get("rel") == "next"]
    page = await browser.go(older)
    assert page.reply.url.params["at"] == then
    assert "t-00" in page.text
    fields = page.form("Show").fields
    assert (fields["at"], fields["principal"]) == (then, "User:bob")
    await browser.go("/console/history?at=yesterday", 400)
    assert "leave one of them out" in (await browser.go(f"/console/history?at={then}&until={then}", 400)).text
    assert "t-99" not in (await browser.go(f"/console/history?until={then}")).text


@pytest.mark.parametrize("path", ["state", "create", "hygiene"])
async def test_a_page_of_now_says_that_it_has_no_past(service: InProcess, browser: Browser, path: str) -> None:
    page = await browser.go(f"/console/{path}?at={service.authorizer.image.token}")
    assert "As things stood at" not in page.text
    assert "it can't show the past" in page.text
    assert "it can't show the past" not in (await browser.go(f"/console/{path}")).text


async def test_the_state_has_a_plain_link(service: InProcess, browser: Browser) -> None:
    page = await browser.go(f"/console/state?at={service.authorizer.image.token}")
    assert "always shows the current one" in page.text
    (link,) = {each["href"] for _, each in page.elements if each.get("href", "").startswith("/console/state")}
    assert link == "/console/state"
