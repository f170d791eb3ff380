"""Changes: planned at an address, made once however often a page is loaded, told, and taken back."""

import zlib
from base64 import urlsafe_b64encode
from urllib.parse import urlencode

import pytest

from app.console.difference import MAX_CHANGES, Change
from app.console.shown import address_of
from app.core.kafka.bindings import NewAcl
from app.formats.command_errors import UsageError
from tests.browser import Browser, Form, Seen, browsing
from tests.gate.unit.console.test_guards import HOSTILE, check_harmless, sign_in
from tests.klamm import InProcess, acl
from tests.updates import binding

ACLS = "/console/acls?principal=User%3Abob"
ONE = {"permission_type": "ALLOW", "operation": "READ", "resource_type": "TOPIC", "pattern_type": "LITERAL"}
MAX_ADDRESS = 6_000


def words(page: Seen) -> str:
    return " ".join(page.text.split())


async def posted(browser: Browser, form: Form, **more: str) -> str:
    """Where a form leads, which is sent as it was shown."""
    reply = await browser.client.post(form.action, data={**form.fields, **more})
    assert reply.status_code == 303, reply.text
    return reply.headers["location"]


async def removal(service: InProcess, browser: Browser) -> Seen:
    """The plan that removes the only ACL."""
    await service.create(acl("orders", "User:bob"))
    return await browser.send((await browser.go(ACLS)).form("Remove"))


async def test_a_plan_has_an_address_of_its_own(service: InProcess, browser: Browser) -> None:
    plan = await removal(service, browser)
    address = str(plan.reply.url.raw_path, "ascii")
    assert address.startswith("/console/plan?change=")
    assert "Lost" in (await browser.go(address)).text
    async with browsing(service.app) as other:
        page = await other.send((await other.go(address)).form("Remove 1 ACL"), comment="as you asked")
    assert page.reply.url.path == "/console/acls"
    assert service.authorizer.image.acl_count == 0
    assert "is already removed" in (await browser.go(address)).text


async def test_what_was_made_is_told_by_token_and_undone(service: InProcess, browser: Browser) -> None:
    plan = await removal(service, browser)
    done = await browser.send(plan.form("Remove 1 ACL"), comment="OPS-7")
    token = str(service.authorizer.image.token)
    assert f"Done at {token}..{token}, 20" in words(done)
    assert "UTC, by User:admin: OPS-7" in words(done)
    assert "deleted ALLOW READ to User:bob on topic orders" in words(done)
    back = await browser.send(done.form("Undo this change"))
    assert "Gained" in back.text
    undone = await browser.send(back.form("Create 1 ACL"))
    assert "created ALLOW READ to User:bob on topic orders" in words(undone)
    assert "deleted" not in words(undone), "the change before is another one"
    assert undone.reply.url.params.get_list("made") == [token]
    (link,) = [each["href"] for _, each in undone.elements if each.get("href", "").startswith("/console/history?")]
    page = await browser.go(link)
    assert page.text.count("UTC") == 1, "this change alone"


async def test_a_form_that_is_sent_twice_changes_once(service: InProcess, browser: Browser) -> None:
    form = (await removal(service, browser)).form("Remove 1 ACL")
    made = await posted(browser, form)
    token = str(service.authorizer.image.token)
    for _ in range(2):
        assert "Done at" in (await browser.go(made)).text
    await service.create(acl("orders", "User:bob"))
    assert "nothing was done" in (await browser.go(await posted(browser, form), 409)).text.lower()
    assert service.authorizer.image.acl_count == 1
    assert token in words(await browser.go(made)), "a change that is over is told as it was"


async def test_a_change_that_changes_nothing_is_told_so(service: InProcess, browser: Browser) -> None:
    plan = await removal(service, browser)
    await browser.send(plan.form("Remove 1 ACL"))
    again = await browser.go(str(plan.reply.url))
    done = await browser.send(again.form("Remove 1 ACL"))
    assert "Nothing had to change" in done.text
    assert "Undo this change" not in done.buttons


async def test_many_acls_are_taken_back_by_one_plan(service: InProcess, browser: Browser) -> None:
    await service.create(*(acl(f"t-{at}", "User:bob") for at in range(25)))
    page = await browser.go("/console/principal?principal=User:bob")
    done = await browser.send((await browser.send(page.form("Remove all its ACLs"))).form("Remove 25 ACLs"))
    assert "and 15 more" in done.text
    await browser.send((await browser.send(done.form("Undo this change"))).form("Create 25 ACLs"))
    assert service.authorizer.image.acl_count == 25


async def test_wrong_fields_are_shown_again_at_their_address(service: InProcess, browser: Browser) -> None:
    form = (await browser.go("/console/create")).form("Review")
    address = await posted(browser, form, **ONE, principal="bob", resource_name="orders")
    for _ in range(2):
        page = await browser.go(address, 400)
        assert 'value="orders"' in page.reply.text
    await service.create(acl("x"))
    plan = await browser.send(page.form("Review"), 200, ONE, principal="User:bob")
    (link,) = [each["href"] for _, each in plan.elements if each.get("href", "").startswith("/console/create?")]
    assert (await browser.go(link)).form("Review").fields["principal"] == "User:bob"


async def test_half_filled_fields_can_be_sent(service: InProcess, browser: Browser) -> None:
    form = (await browser.go("/console/create?preset=consumer")).form("Review")
    address = await posted(browser, form, topics="orders, pay.*", host="10.0.0.1", linked="yes")
    assert form.fields["form_token"] not in address
    async with browsing(service.app) as other:
        fields = (await other.go(address)).form("Review").fields
        assert (fields["topics"], fields["host"], fields["principal"]) == ("orders, pay.*", "10.0.0.1", "")
        plan = await other.send((await other.go(address)).form("Review"), principal="User:bob", group="g")
    assert "Create 5 ACLs" in plan.buttons


async def test_what_fits_no_address_is_shown_at_once(service: InProcess, browser: Browser) -> None:
    long = "".join(chr(0x4E00 + at * 7 % 20_000) for at in range(5_000))
    form = (await browser.go("/console/create")).form("Review")
    typed = {**ONE, "resource_name": long, "principal": "User:bob"}
    assert f'value="{long}"' in (await browser.send(form, 400, typed, linked="yes")).reply.text
    assert f'value="{long}"' in (await browser.send(form, 400, typed, principal="bob")).reply.text
    plan = await browser.send(form, 200, typed)
    assert "no address" in plan.text
    done = await browser.send(plan.form("Create 1 ACL"))
    assert "Done at" in done.text
    assert service.authorizer.image.acl_count == 1


def test_a_long_text_is_not_even_spelled_out_for_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address_of("/console", {"q": "é" * 900}) is not None
    assert address_of("/console", {"q": "é" * 1_100}) is None
    monkeypatch.setattr("app.console.shown.urlencode", None)
    assert address_of("/console", {"q": "é" * 1_000_000}) is None


@pytest.mark.parametrize(
    "packed",
    [
        "",
        "x",
        "é",
        "A" * 5_001,
        Change((NewAcl(binding(acl("t"))),)).packed()[:-3],  # type: ignore[index]
        urlsafe_b64encode(zlib.compress(b'{"create": [], "delete": [' + b" " * 10**7 + b"]}")).decode()[:5_900],
        urlsafe_b64encode(zlib.compress(b"[" * 200_000)).decode(),
        urlsafe_b64encode(zlib.compress(b'{"create": [], "delete": [1]}')).decode(),
        urlsafe_b64encode(zlib.compress(b"\xff")).decode(),
    ],
)
async def test_what_is_no_plan_is_said(browser: Browser, packed: str) -> None:
    page = await browser.go(f"/console/plan?{urlencode({'change': packed})}", 400)
    assert "does not say which ACLs to change" in page.text


def test_a_plan_in_an_address_is_the_plan() -> None:
    change = Change(tuple(NewAcl(binding(acl(f"t-{at}", "User:b"))) for at in range(MAX_CHANGES)))
    packed = change.packed()
    assert packed is not None
    assert len(packed) < MAX_ADDRESS, "the longest plan with like names"
    assert Change.of_packed(packed) == change
    long = tuple(NewAcl(binding(acl(f"{at}" + "n" * 30_000))) for at in range(10))
    assert Change(long).packed() is None
    with pytest.raises(UsageError):
        Change.of_packed("")


@pytest.mark.parametrize("odd", HOSTILE)
async def test_hostile_names_are_text_where_a_change_is_told(service: InProcess, browser: Browser, odd: str) -> None:
    await service.create(acl(odd, f"User:{odd}"[:32_767]))
    table = await browser.go("/console/acls")
    done = await browser.send((await browser.send(table.form("Remove"))).form("Remove 1 ACL"), comment=odd[:400])
    assert "Done at" in done.text
    check_harmless(done.reply.text)


@pytest.mark.parametrize("made", ["<script>alert(1)</script>", "now", "2026-01-01T00:00:00Z", "\u202e"])
async def test_an_address_that_names_no_change_tells_none(service: InProcess, browser: Browser, made: str) -> None:
    await service.create(acl("orders"))
    token = str(service.authorizer.image.token)
    page = await browser.go(f"/console/state?{urlencode({'made': made, 'at_least': token})}")
    check_harmless(page.reply.text)
    assert ("Done at" in page.text) is made.startswith("2026"), "a time is a moment as well, and what followed is told"
    assert "Done at" not in (await browser.go(f"/console/acls?{urlencode({'made': token})}")).text


async def test_who_may_not_change_gets_no_plan_and_no_undo(with_callers: InProcess, stranger: Browser) -> None:
    service = with_callers
    begin = str(service.authorizer.image.token)
    await service.create(acl("kafka-cluster", "User:platform", "DESCRIBE", resource_type="CLUSTER"))
    packed = Change((NewAcl(binding(acl("t"))),)).packed()
    made = urlencode({"made": begin, "at_least": str(service.authorizer.image.token)})
    for caller, says in (("platform", "needs ALTER"), ("prometheus", "which may not change ACLs")):
        await sign_in(stranger, with_callers.tokens[caller])
        assert says in (await stranger.go(f"/console/plan?change={packed}", 403)).text
        page = await stranger.go(f"/console/state?{made}")
        assert "Undo this change" not in page.buttons
        assert ("Done at" in page.text) is (caller == "platform")
        await stranger.send(page.form("Sign out"))
    assert (await stranger.go(f"/console/plan?change={packed}")).reply.url.path == "/console/sign-in"


async def test_who_changes_without_looking_is_told_that_it_is_done(with_callers: InProcess, stranger: Browser) -> None:
    cluster = {"principal": "User:platform", "resource_type": "CLUSTER"}
    await with_callers.create(
        acl("kafka-cluster", operation="ALTER", **cluster),
        acl("kafka-cluster", operation="DESCRIBE", permission_type="DENY", **cluster),
    )
    await sign_in(stranger, with_callers.tokens["platform"])
    token = str(with_callers.authorizer.image.token)
    page = await stranger.go(f"/console/state?{urlencode({'made': token, 'at_least': token})}")
    assert "What changed can't be shown now" in words(page)
