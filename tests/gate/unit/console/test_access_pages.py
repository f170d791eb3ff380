"""Resources, principals, the table of ACLs, forms for new ones, and the state: true, and for those who may see them."""

import json
import re
from urllib.parse import urlencode

import pytest

from app.console.presets import PRESETS, acls_of
from app.formats.command_errors import UsageError
from tests.browser import Browser, Seen
from tests.gate.unit.console.test_guards import HOSTILE, check_harmless, sign_in
from tests.klamm import InProcess, acl

LATER = "2037-01-02T03:04:05Z"
PAGES = ("/console/resource", "/console/principal", "/console/acls", "/console/create", "/console/state")


def words(page: Seen) -> str:
    return " ".join(page.text.split())


async def resource(browser: Browser, name: str, type_: str = "TOPIC") -> Seen:
    return await browser.go("/console/resource?" + urlencode({"type": type_, "name": name}))


async def test_a_resource_shows_who_may_do_what_and_by_which_acls(service: InProcess, browser: Browser) -> None:
    await service.create(
        acl("orders", "User:bob"),
        acl("ord", "User:carol", "ALL", pattern_type="PREFIXED", host="10.0.0.0/8"),
        acl("*", "User:bob", "WRITE", permission_type="DENY"),
        acl("payments", "User:dave"),
    )
    page = await resource(browser, "orders")
    assert "User:bob" in page.text
    assert "User:carol" in page.text
    assert "User:dave" not in page.text
    cells = [attributes["class"] for tag, attributes in page.elements if tag == "td" and "class" in attributes]
    assert cells.count("cell yes") == 2 + 8, "READ and DESCRIBE of bob, all eight of carol"
    assert cells.count("cell no") == 1
    assert "Super users may do everything: User:admin" in words(page)
    assert "ACLs that cover it 3" in words(page)


async def test_without_a_name_there_is_something_to_begin_with(service: InProcess, browser: Browser) -> None:
    assert "No ACL names a resource yet" in (await browser.go("/console/resource")).text
    assert "No ACL names a principal yet" in (await browser.go("/console/principal")).text
    assert "There are no ACLs yet" in (await browser.go("/console/acls")).text
    await service.create(acl("orders", "User:bob"))
    assert "orders" in (await browser.go("/console/resource")).text
    assert "User:bob" in (await browser.go("/console/principal")).text


async def test_a_principal_shows_what_it_may_do_and_everything_is_taken_in_one_plan(
    service: InProcess, browser: Browser
) -> None:
    await service.create(
        acl("orders", "User:bob"), acl("pay", "User:bob", "WRITE", pattern_type="PREFIXED"), acl("news", "User:*")
    )
    page = await browser.go("/console/principal?principal=User:bob")
    assert "ACLs of its own 2" in words(page)
    plan = await browser.send(page.form("Remove all its ACLs"))
    assert "Lost" in plan.text
    page = await browser.send(plan.form("Remove 2 ACLs"), comment="left the company")
    assert "ACLs of its own 0" in words(page)
    assert service.authorizer.image.acl_count == 1
    assert "is not a principal" in (await browser.go("/console/principal?principal=bob", 400)).text


async def test_a_pattern_has_one_row_with_all_denies_that_cut_it_out(service: InProcess, browser: Browser) -> None:
    denies = [acl(f"t-{at}", "User:*", "ALL", permission_type="DENY") for at in range(2_045)]
    await service.create(acl("*", "User:bob"), *denies)
    page = await browser.go("/console/principal?principal=User:bob")
    assert words(page).count("2,045 DENY") == 1
    assert page.text.count("to everybody") + page.text.count("for everybody") >= 2_000
    assert "45 more on the pages of patterns before and after this one" in words(page)


async def test_the_table_is_filtered_by_its_address_and_paged(service: InProcess, browser: Browser) -> None:
    await service.create(*(acl(f"t-{at:03}", f"User:u{at % 2}") for at in range(150)))
    page = await browser.go("/console/acls")
    assert "ACLs 150" in words(page)
    rows = [attributes for tag, attributes in page.elements if tag == "tr" and "data-acl" in attributes]
    assert len(rows) == 100
    (following,) = [attributes["href"] for _, attributes in page.elements if attributes.get("rel") == "next"]
    page = await browser.go(following)
    assert len([1 for tag, attributes in page.elements if tag == "tr" and "data-acl" in attributes]) == 50
    page = await browser.go("/console/acls?principal=User:u1&resource_name=t-001")
    assert page.text.count("User:u1") == 1
    assert "No ACL matches" in (await browser.go("/console/acls?principal=User:nobody")).text
    assert "FLY" in (await browser.go("/console/acls?operation=FLY", 400)).text


async def test_an_acl_is_removed_from_the_table(service: InProcess, browser: Browser) -> None:
    await service.create(acl("orders", "User:bob"))
    page = await browser.go("/console/acls?principal=User:bob")
    page = await browser.send((await browser.send(page.form("Remove"))).form("Remove 1 ACL"))
    assert page.reply.url.path == "/console/acls"
    assert service.authorizer.image.acl_count == 0


async def test_an_acl_is_changed_in_place_or_replaced_in_one_plan(service: InProcess, browser: Browser) -> None:
    one = {"permission_type": "ALLOW", "operation": "READ", "resource_type": "TOPIC", "pattern_type": "LITERAL"}
    named = {**one, "principal": "User:bob", "resource_name": "orders"}
    plan = await browser.send(
        (await browser.go("/console/create")).form("Review"), 200, named, ends=LATER, owner="team"
    )
    await browser.send(plan.form("Create 1 ACL"))
    again = await browser.send((await browser.go("/console/create")).form("Review"), 200, named, ends=LATER)
    assert "its owner stays" in again.text
    link = next(each["href"] for _, each in (await browser.go("/console/acls")).elements if "instead=" in str(each))

    form = (await browser.go(link)).form("Review")
    assert (form.fields["principal"], form.fields["owner"]) == ("User:bob", "team")
    plan = await browser.send(form, 200, one, ends=LATER, owner="others")
    assert "Nobody gains or loses" in plan.text
    assert "its end and owner change to these" in plan.text
    await browser.send(plan.form("Change 1 ACL"))
    row = (await browser.go("/console/acls")).text
    assert ("others" in row, LATER[:10] in row) == (True, True), "its end stays"

    plan = await browser.send(form, 200, one, ends=LATER, owner=" ")
    await browser.send(plan.form("Change 1 ACL"))
    row = (await browser.go("/console/acls")).text
    assert ("others" in row, LATER[:10] in row) == (False, True), "its owner is taken away"

    plan = await browser.send(form, 200, one, ends=LATER, host="10.0.0.1")
    assert ("Gained" in plan.text, "Lost" in plan.text) == (False, True)
    await browser.send(plan.form("Create 1 and remove 1"))
    table = words(await browser.go("/console/acls"))
    assert ("10.0.0.1" in table, service.authorizer.image.acl_count) == (True, 1)

    assert "There is no ACL" in (await browser.go(link, 404)).text
    page = await browser.send(form, 404, one, host="10.0.0.2")
    assert 'value="10.0.0.2"' in page.reply.text, "nothing that was typed is lost"
    assert "Gained" in (await browser.send(page.form("Review"), 200, one)).text
    await browser.go("/console/create?instead=../configs", 400)


async def test_a_principal_is_shown_with_its_groups(service: InProcess, browser: Browser) -> None:
    await service.create(acl("orders", "Group:eng"))
    asked = "/console/principal?principal=User:dan"
    assert "Nothing: no ACL" in (await browser.go(asked)).text
    page = await browser.go(f"{asked}&groups=pii,+eng")
    assert "orders" in page.text
    assert any("view=tree" in each.get("href", "") and "groups=" in each["href"] for _, each in page.elements)
    assert 'value="Group:eng"' in (await browser.go(f"{asked}&groups=Group:eng", 400)).reply.text


async def test_an_acl_says_since_when_it_is_there_and_by_whom(service: InProcess, browser: Browser) -> None:
    def makers(page: Seen) -> list[str]:
        """As the matrix and the list of ACLs name them."""
        return re.findall(r"(?<!Now, )since \S+ \S+ UTC by (\S+)", words(page))

    await service.create(acl("orders", "User:bob"))
    before = str(service.authorizer.image.token)
    assert makers(await resource(browser, "orders")) == ["User:admin"] * 2
    table = await browser.go("/console/acls")
    await browser.send((await browser.send(table.form("Remove"))).form("Remove 1 ACL"))
    history = await browser.go("/console/history")
    await browser.send((await browser.send(history.form("Undo"))).form("Create 1 ACL"), comment="OPS-9")
    assert makers(await resource(browser, "orders")) == ["User:admin:"] * 2
    assert "UTC by User:admin: OPS-9" in words(await resource(browser, "orders"))
    then = await browser.go(f"/console/resource?type=TOPIC&name=orders&at={before}")
    assert makers(then) == ["User:admin"] * 2, "of the ACL that was there then"


async def test_one_acl_is_created_by_its_fields(browser: Browser) -> None:
    form = (await browser.go("/console/create?principal=User:bob")).form("Review")
    assert form.fields["principal"] == "User:bob"
    one = {"permission_type": "DENY", "operation": "ALL", "resource_type": "GROUP", "pattern_type": "PREFIXED"}
    refused = await browser.send(form, 400, one, principal="bob", resource_name="reports", ends="8h", owner="team")
    assert 'value="reports"' in refused.reply.text, "nothing that was typed is lost"
    plan = await browser.send(form, 200, one, resource_name="reports", host="10.0.0.1", ends="8h", owner="team")
    await browser.send(plan.form("Create 1 ACL"))
    page = words(await browser.go("/console/acls"))
    assert "DENYALLUser:bobgroup reports*10.0.0.1" in page
    assert "UTCteam" in page


@pytest.mark.parametrize("name", PRESETS)
async def test_each_preset_becomes_a_plan(service: InProcess, browser: Browser, name: str) -> None:
    form = (await browser.go(f"/console/create?preset={name}")).form("Review")
    preset = PRESETS[name]
    missing = await browser.send(form, 400, principal="User:app")
    assert preset.fields[0].label in missing.text
    hints = {each.name: each.hint for each in preset.fields}
    plan = await browser.send(form, 200, hints, principal="User:app", ends="never")
    acls = acls_of(preset, {**hints, "principal": "User:app"})
    assert len(acls) == len(set(acls)) > 1
    await browser.send(plan.form(f"Create {len(acls)} ACLs"))
    assert service.authorizer.image.acl_count == len(acls)


def test_a_consumer_gets_what_kafka_acls_would_give_it() -> None:
    acls = acls_of(PRESETS["consumer"], {"principal": "User:a", "topics": "orders, pay.*", "group": "g"})
    assert [(each.operation.name, each.resource_name, each.pattern_type.name) for each in acls] == [
        ("READ", "orders", "LITERAL"),
        ("DESCRIBE", "orders", "LITERAL"),
        ("READ", "pay.", "PREFIXED"),
        ("DESCRIBE", "pay.", "PREFIXED"),
        ("READ", "g", "LITERAL"),
    ]
    with pytest.raises(UsageError, match="Principal"):
        acls_of(PRESETS["consumer"], {"principal": "a", "topics": "orders", "group": "g"})


def test_mirror_maker_may_read_its_checkpoints_on_the_target() -> None:
    acls = acls_of(PRESETS["mirror-target"], {"principal": "User:mm", "alias": "eu-west"})
    read = {(each.resource_name, each.pattern_type.name) for each in acls if each.operation.name == "READ"}
    assert ("eu-west.checkpoints.internal", "LITERAL") in read
    assert ("eu-west.", "PREFIXED") not in read, "it does not read what it mirrors"


async def test_the_state_says_what_a_person_on_call_looks_at(service: InProcess, browser: Browser) -> None:
    page = await browser.go("/console/state")
    assert "Ready" in page.text
    assert "change-feed" in page.text
    totals = json.loads((await browser.go("/console/state/totals")).reply.text)
    assert set(totals) == {"allowed", "denied", "requests", "changes"}
    assert totals["requests"] > 0
    service.authorizer.readiness.draining()
    assert "Not ready" in (await browser.go("/console/state")).text


@pytest.mark.parametrize("odd", HOSTILE)
async def test_hostile_names_are_text_on_each_page(service: InProcess, browser: Browser, odd: str) -> None:
    principal = f"User:{odd}"[:32_767]
    await service.create(acl(odd, principal), acl(odd, pattern_type="PREFIXED"))
    short = {"principal": principal, "type": "TOPIC", "name": odd} if len(odd) < 4_000 else {}
    for path in PAGES:
        page = await browser.go(f"{path}?{urlencode(short)}" if path != "/console/acls" else path)
        check_harmless(page.reply.text)
    table = await browser.go("/console/acls")
    plan = await browser.send(table.form("Remove"))
    check_harmless(plan.reply.text)
    await browser.send(plan.form("Remove 1 ACL"))
    assert service.authorizer.image.acl_count == 1


async def test_who_may_not_look_is_told_so_and_sees_nothing(with_callers: InProcess, stranger: Browser) -> None:
    await with_callers.create(acl("secret-topic", "User:bob"))
    await sign_in(stranger, with_callers.tokens["platform"])
    for path in PAGES[:3]:
        page = await stranger.go(f"{path}?name=secret-topic&principal=User:bob&resource_name=secret-topic")
        assert "needs DESCRIBE on the cluster" in page.text
        assert "User:bob" not in page.text.replace('placeholder="User:bob"', "") or path == "/console/principal"
    await stranger.go("/console/create", 403)
    page = await stranger.go("/console?q=User:bob+READ+topic:secret-topic", 403)
    assert "it may ask about itself" in page.text
    assert "User:platform READ topic:orders" in page.text
    assert "Ready" in (await stranger.go("/console/state")).text
    await with_callers.create(acl("kafka-cluster", "User:platform", "DESCRIBE", resource_type="CLUSTER"))
    page = await stranger.go("/console/acls")
    assert "secret-topic" in page.text
    assert "Remove" not in page.buttons, "one who may look only sees no button"
    assert "Create" not in page.text


async def test_an_observer_sees_the_state_alone(with_callers: InProcess, stranger: Browser) -> None:
    await sign_in(stranger, with_callers.tokens["prometheus"])
    assert (await stranger.go("/console")).reply.url.path == "/console/state"
    for path in ("acls", "resource?type=TOPIC&name=t", "principal?principal=User:bob", "history", "hygiene"):
        assert "which may not view ACLs" in words(await stranger.go(f"/console/{path}"))
    assert "which may not change ACLs" in words(await stranger.go("/console/create", 403))
    assert "ACLs" in words(await stranger.go("/console/state"))
    await sign_out_and_in(stranger, with_callers.tokens["sidecar"])
    page = await stranger.go("/console")
    assert "the role decide, which may not view ACLs" in words(page)
    assert "Ready" in page.text
    assert "Memory" not in page.text
    assert (await stranger.client.get("/console/state/totals")).status_code == 403


async def sign_out_and_in(browser: Browser, token: str) -> None:
    await browser.send((await browser.go("/console/state")).form("Sign out"))
    await sign_in(browser, token)


async def test_events_are_watchs_own(service: InProcess, browser: Browser) -> None:
    reply = await browser.client.get("/console/events")
    assert reply.status_code == 400
    assert service.authorizer.image.token is not None


async def test_events_need_what_watch_needs(with_callers: InProcess, stranger: Browser) -> None:
    assert (await stranger.go("/console/events?after=x")).reply.url.path == "/console/sign-in"
    await sign_in(stranger, with_callers.tokens["prometheus"])
    token = str(with_callers.authorizer.image.token)
    assert (await stranger.client.get("/console/events", params={"after": token})).status_code == 403


async def test_an_acl_that_is_there_keeps_its_owner_unless_another_is_named(
    service: InProcess, browser: Browser
) -> None:
    one = {"principal": "User:bob", "resource_name": "orders"}
    for owner, ends, shown in (("team", "never", "team"), ("", "8h", "team"), ("others", "never", "others")):
        form = (await browser.go("/console/create")).form("Review")
        form.fields |= {"permission_type": "ALLOW", "operation": "READ", "resource_type": "TOPIC"}
        plan = await browser.send(form, 200, {**one, "pattern_type": "LITERAL"}, owner=owner, ends=ends)
        again = await browser.send(plan.form("Change the end"), 200, ends="")
        assert ("until" in again.text) is (ends == "8h"), "an end that was not touched stays"
        # The first time it is not there yet.
        await browser.send(again.form("Create 1 ACL" if owner == "team" else "Change 1 ACL"))
        (row,) = [each for each in (await browser.go("/console/acls")).text.splitlines() if "User:bob" in each]
        assert row.endswith(shown)
    assert service.authorizer.image.acl_count == 1


async def test_of_many_names_60_are_shown_to_begin_with(service: InProcess, browser: Browser) -> None:
    names = [f"topic-{number:03}" for number in range(61)]
    await service.create(*(acl(name, f"User:of-{name}") for name in names))
    resources = (await browser.go("/console/resource")).text
    assert [name for name in names if name in resources] == names[:60]
    principals = (await browser.go("/console/principal")).text
    assert [name for name in names if f"User:of-{name}" in principals] == names[:60]
