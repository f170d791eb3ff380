"""What visitors may send, and that rights come before anything of it is read."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from app.console import ask, difference
from app.console.forms import MAX_FIELDS
from app.console.questions import MAX_QUESTION, MAX_WORDS
from app.console.visits import MAX_QUERY_BYTES
from tests.browser import Browser
from tests.gate.unit.console.test_ask import BOB
from tests.gate.unit.console.test_guards import sign_in
from tests.klamm import InProcess

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("question", "bound"),
    [
        ("x" * (MAX_QUESTION + 1), f"{MAX_QUESTION:,} are the most"),
        ("a " * (MAX_WORDS + 1), f"{MAX_WORDS} are the most"),
    ],
)
async def test_a_long_question_is_refused_by_its_bound(browser: Browser, question: str, bound: str) -> None:
    assert bound in (await browser.go("/console?q=" + quote(question), 400)).text


async def test_a_question_of_many_groups_is_none_of_those(browser: Browser) -> None:
    groups = ", ".join(f"eng-{at}" for at in range(200))
    page = await browser.go("/console?q=" + quote(f"User:bob (groups {groups}) WRITE topic:orders"))
    assert "Denied" in page.text


@pytest.mark.parametrize(
    "path", ["/console", "/console/sign-in", "/console/acls", "/console/plan", "/console/static/a/b"]
)
async def test_a_long_address_is_refused_by_its_bound(stranger: Browser, path: str) -> None:
    page = await stranger.go(f"{path}?x={'a' * MAX_QUERY_BYTES}", 400)
    assert f"more than {MAX_QUERY_BYTES} bytes" in page.text


async def test_a_stray_percent_is_told(browser: Browser) -> None:
    assert "begins no escape" in (await browser.go("/console?q=%%%x", 400)).text
    page = await browser.go(BOB)
    form = page.form("Allow for good")
    content = f"form_token={form.fields['form_token']}&change=" + "%x" * 200
    reply = await browser.client.post(form.action, content=content, headers=FORM)
    assert reply.status_code == 400
    assert "begins no escape" in reply.text


async def test_a_form_has_so_many_fields_at_most(service: InProcess, browser: Browser) -> None:
    form = (await browser.go(BOB)).form("Allow for good")
    fields = {**form.fields, **{f"f{at}": "1" for at in range(MAX_FIELDS)}}
    reply = await browser.client.post(form.action, data=fields)
    assert reply.status_code == 400
    assert f"more than {MAX_FIELDS} fields" in reply.text
    assert service.authorizer.image.acl_count == 0


async def test_no_form_is_read_of_who_may_change_nothing(with_callers: InProcess, stranger: Browser) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the form is read")
        yield b""

    for caller in (None, "platform", "sidecar", "prometheus"):
        if caller is not None:
            stranger.client.headers["authorization"] = f"Bearer {with_callers.tokens[caller]}"
        for path in ("/console/plan", "/console/apply", "/console/create"):
            reply = await stranger.client.post(path, content=never(), headers={**FORM, "content-length": "100"})
            assert reply.status_code == (400 if caller is None else 403), (caller, path)


async def test_no_question_or_plan_is_parsed_of_who_may_not_ask(
    with_callers: InProcess, stranger: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it is parsed")

    monkeypatch.setattr(ask, "asked", never)
    monkeypatch.setattr(difference.Change, "of_packed", staticmethod(never))
    assert (await stranger.go(BOB)).reply.url.path == "/console/sign-in"
    for caller in ("sidecar", "prometheus"):
        await sign_in(stranger, with_callers.tokens[caller])
        assert "which may not ask" in (await stranger.go(BOB, 403)).text
        assert (await stranger.client.get("/console/plan?change=x")).status_code == 403
        await stranger.send((await stranger.go("/console/state")).form("Sign out"))
