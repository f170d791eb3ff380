"""Who may see and change what through a browser: sessions, forms of other sites, frames, roles."""

import re
from pathlib import Path

import pytest

from app.console.routes import console_routes
from app.console.sessions import Seal, Session
from app.console.shown import name
from app.rest.app import AppOptions
from tests.browser import KEY, Browser, browsing
from tests.gate.unit.console.test_ask import BOB
from tests.klamm import InProcess, acl, in_process

HOSTILE = (
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "evil\u202egnp.exe",
    "javascript:alert(1)",
    "{{7*7}}${7*7}",
    "🦑 squid 👩‍👩‍👧",
    "n" * 32_767,
    "&amp;&lt;",
    "a/../../b?c=d&e#f",
)
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"


async def sign_in(browser: Browser, token: str, status: int = 200) -> str:
    page = await browser.go("/console/sign-in")
    return (await browser.send(page.form("Sign in"), status, token=token)).text


async def test_every_page_has_the_policy_and_is_in_no_frame(browser: Browser) -> None:
    for path, status in (("/console", 200), ("/console?q=x", 400), ("/console/static/x/console.css", 200)):
        reply = (await browser.go(path, status)).reply
        assert reply.headers["content-security-policy"] == POLICY
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["x-content-type-options"] == "nosniff"
    page = await browser.go(BOB)
    names = {attribute for _, attributes in page.elements for attribute in attributes}
    assert not {each for each in names if each.startswith("on")} | names & {"style"}
    assert all(attributes.get("src") for tag, attributes in page.elements if tag == "script")


async def test_the_files_of_the_package_are_served_and_no_others(browser: Browser) -> None:
    for path in ("..%2F..%2Fpages.py", "htmx.LICENSE.txt", "nothing.js"):
        assert (await browser.client.get(f"/console/static/x/{path}")).status_code == 404


@pytest.mark.parametrize("odd", HOSTILE)
async def test_hostile_names_are_text_on_every_page(service: InProcess, browser: Browser, odd: str) -> None:
    await service.create(acl(odd, f"User:{odd}"[:32_767]))
    await service.create(acl(odd, "User:*", "WRITE"))
    page = await browser.go("/console?q=User:x+READ+topic:orders")
    check_harmless(page.reply.text)


def check_harmless(text: str) -> None:
    assert "<script>alert" not in text
    assert "<img" not in text
    # What was typed stands in its field again, as it was typed.
    assert "\u202e" not in re.sub(r'value="[^"]*"', "", text)
    assert 'href="javascript:' not in text


@pytest.mark.parametrize("odd", HOSTILE)
def test_a_name_is_set_apart_and_cut(odd: str) -> None:
    shown = str(name(odd))
    assert shown.startswith("<bdi")
    assert len(shown) < 1_000


async def test_a_form_of_another_site_does_nothing(service: InProcess, browser: Browser) -> None:
    plan = await browser.send((await browser.go(BOB)).form("Allow for good"))
    form = plan.form("Create 1 ACL")
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ):
        reply = await browser.client.post(form.action, data=form.fields, headers=headers)
        assert reply.status_code == 403, headers
    for form_token in ("", "0" * 64, "é"):
        reply = await browser.client.post(form.action, data={**form.fields, "form_token": form_token})
        assert reply.status_code == 400
    async with browsing(service.app) as other:
        reply = await other.client.post(form.action, data=form.fields)
        assert reply.status_code == 400, "the token is of another session"
    typed = {"content-type": "text/plain"}
    assert (await browser.client.post(form.action, content="a=b", headers=typed)).status_code == 415
    assert service.authorizer.image.acl_count == 0


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8080", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("klamm.localhost", 200),
        ("evil.example:8080", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
    ],
)
async def test_without_callers_no_other_name_leads_to_the_console(service: InProcess, host: str, status: int) -> None:
    async with browsing(service.app, host) as browser:
        await browser.go("/console", status)


async def test_without_callers_one_acts_as_whom_one_chooses_and_sees_it(service: InProcess, browser: Browser) -> None:
    page = await browser.go(BOB)
    assert "acting as User:admin" in " ".join(page.text.split())
    page = await browser.send(page.form("Change"), 403, principal="User:carol")
    assert "acting as User:carol" in " ".join(page.text.split())
    assert "Allow for good" not in page.buttons
    assert "begin" not in page.text
    assert "is not a principal" in (await browser.send(page.form("Change"), 400, principal="carol")).text
    await service.create(acl("kafka-cluster", "User:carol", "ALTER", resource_type="CLUSTER"))
    assert "Allow for good" in (await browser.go(BOB)).buttons


async def test_nobody_is_shown_anything_before_signing_in(with_callers: InProcess, stranger: Browser) -> None:
    page = await stranger.go(BOB)
    assert page.reply.url.path == "/console/sign-in"
    assert "Denied" not in page.text
    assert "does not know this token" in await sign_in(stranger, "klamm_wrong", 401)
    assert "does not know this token" in await sign_in(stranger, "\u202e" * 1_500, 401)
    reply = await stranger.client.post("/console/apply", data={"change": "{}"})
    assert reply.status_code == 400
    assert with_callers.authorizer.image.acl_count == 0


async def test_one_signs_in_with_a_callers_token_and_out_again(with_callers: InProcess, stranger: Browser) -> None:
    page = await stranger.go(BOB)
    page = await stranger.send(page.form("Sign in"), token=with_callers.tokens["root"])
    assert "Denied" in page.text, "back to the page that was asked for"
    (cookie,) = [each for each in stranger.client.cookies.jar if each.name == "klamm_session"]
    assert cookie.path == "/console"
    assert with_callers.tokens["root"] not in str(cookie.value)
    plan = await stranger.send(page.form("Allow for 8 hours"))
    assert "Allowed" in (await stranger.send(plan.form("Create 1 ACL"))).text
    await stranger.send((await stranger.go("/console")).form("Sign out"))
    assert (await stranger.go(BOB)).reply.url.path == "/console/sign-in"


async def test_a_copy_of_the_cookie_is_worth_nothing_after_sign_out(with_callers: InProcess, stranger: Browser) -> None:
    await sign_in(stranger, with_callers.tokens["root"])
    copied = dict(stranger.client.cookies)
    form = (await stranger.go("/console")).form("Sign out")
    async with browsing(with_callers.app) as thief:
        thief.client.headers["cookie"] = f"klamm_session={copied['klamm_session']}"
        assert "Denied" in (await thief.go(BOB)).text
        await stranger.send(form)
        assert (await thief.go(BOB)).reply.url.path == "/console/sign-in"
        plan = {**form.fields, "change": "{}"}
        assert (await thief.client.post("/console/plan", data=plan)).status_code == 400
    await sign_in(stranger, with_callers.tokens["root"])
    assert "Denied" in (await stranger.go(BOB)).text, "the token is as good as before"


async def test_strangers_can_not_have_sessions_remembered(with_callers: InProcess, stranger: Browser) -> None:
    form = (await stranger.go("/console/sign-in")).form("Sign in")
    reply = await stranger.client.post("/console/sign-out", data=form.fields)
    assert reply.status_code == 303
    assert with_callers.app._services.ended_sessions.to_list() == [0.0]


@pytest.mark.parametrize("is_behind_tls", [False, True])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_cookie_is_for_this_site_and_no_script(tmp_path: Path, scheme: str, *, is_behind_tls: bool) -> None:
    console = AppOptions(console=console_routes(KEY, is_behind_tls=is_behind_tls))
    async with in_process(tokens_file=tmp_path / "klamm.tokens", around=console) as it, browsing(it.app) as browser:
        reply = await browser.client.get(f"{scheme}://localhost/console/sign-in")
        name, *parts = (each.strip().lower() for each in reply.headers["set-cookie"].split(";"))
        assert {"httponly", "samesite=strict", "max-age=28800"} <= {*parts}
        if scheme == "https" or is_behind_tls:
            assert name.startswith("__host-klamm_session=")
            assert {"secure", "path=/"} <= {*parts}
        else:
            assert name.startswith("klamm_session=")
            assert "path=/console" in parts
            assert "secure" not in parts


async def test_over_tls_no_cookie_of_another_name_counts(tmp_path: Path) -> None:
    """A neighbouring site may set one for all of its domain, but not with `__Host-`."""
    console = AppOptions(console=console_routes(KEY, is_behind_tls=True))
    async with in_process(tokens_file=tmp_path / "klamm.tokens", around=console) as it, browsing(it.app) as browser:
        sealed = Seal(KEY).sealed(Session.new(it.tokens["root"]))
        for name, path in (("klamm_session", "/console/sign-in"), ("__Host-klamm_session", "/console")):
            browser.client.headers["cookie"] = f"{name}={sealed}"
            assert (await browser.go(BOB)).reply.url.path == path


async def test_a_session_ends_with_its_token(with_callers: InProcess, stranger: Browser, tmp_path: Path) -> None:
    tokens_file = tmp_path / "klamm.tokens"
    await sign_in(stranger, with_callers.tokens["root"])
    assert "Denied" in (await stranger.go(BOB)).text
    lines = tokens_file.read_text().splitlines()
    tokens_file.write_text("\n".join(each for each in lines if "root" not in each))
    tokens = with_callers.callers._credentials
    assert tokens is not None
    assert tokens.tokens is not None
    await tokens.tokens.look()
    with_callers.callers._forget_if_changed(tokens)
    assert (await stranger.go(BOB)).reply.url.path == "/console/sign-in"


def test_a_session_is_over_after_eight_hours_and_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr("cryptography.fernet.time.time", lambda: now)
    seal, session = Seal(KEY), Session.new("klamm_token")
    sealed = seal.sealed(session)
    assert seal.opened(sealed) == session
    assert Seal(bytes(32)).opened(sealed) is None
    assert seal.opened(sealed[:-4] + "AAAA") is None
    assert seal.opened("é" * 10) is None
    now += 8 * 3600
    assert seal.opened(sealed) == session
    now += 1
    assert seal.opened(sealed) is None
    assert not seal.is_form_token(Seal(bytes(32)).form_token(session), session)


async def test_a_role_can_do_through_the_console_what_it_can_do_and_no_more(
    with_callers: InProcess, stranger: Browser
) -> None:
    """platform is an admin caller whose principal has no rights yet; others have no business here."""
    await sign_in(stranger, with_callers.tokens["root"])
    plan = await stranger.send((await stranger.go(BOB)).form("Allow for good"))
    form = plan.form("Create 1 ACL")
    for caller in ("sidecar", "anyone", "prometheus", "platform"):
        await stranger.send((await stranger.go("/console")).form("Sign out"))
        await sign_in(stranger, with_callers.tokens[caller])
        page = await stranger.go("/console")
        assert "Allow for good" not in page.buttons
        fields = {**form.fields, "form_token": page.form("Sign out").fields["form_token"]}
        for action in ("/console/plan", "/console/apply"):
            assert (await stranger.client.post(action, data=fields)).status_code == 403, (caller, action)
    assert with_callers.authorizer.image.acl_count == 0
    await with_callers.create(acl("kafka-cluster", "User:platform", "ALTER", resource_type="CLUSTER"))
    page = await stranger.go(BOB)
    await stranger.send((await stranger.send(page.form("Allow for good"))).form("Create 1 ACL"))
    assert with_callers.authorizer.image.acl_count == 2


async def test_nobody_chooses_whom_to_act_as_where_callers_are_configured(
    with_callers: InProcess, stranger: Browser
) -> None:
    await sign_in(stranger, with_callers.tokens["platform"])
    form = (await stranger.go("/console")).form("Sign out")
    reply = await stranger.client.post("/console/act-as", data={**form.fields, "principal": "User:admin"})
    assert reply.status_code == 403
    forged = Seal(KEY).sealed(Session.new(with_callers.tokens["platform"], "User:admin"))
    stranger.client.cookies.set("klamm_session", forged, path="/console", domain="localhost.local")
    assert "acting as User:admin" not in " ".join((await stranger.go("/console")).text.split())


async def test_a_console_that_is_off_is_not_there() -> None:
    async with in_process() as service, browsing(service.app) as browser:
        await browser.go("/console", 404)
    assert console_routes(KEY)


async def test_a_store_that_is_away_is_said_in_words() -> None:
    async with (
        in_process(reachable=False, around=AppOptions(console=console_routes(KEY))) as service,
        browsing(service.app) as browser,
    ):
        page = await browser.go("/console")
        assert page.reply.status_code == 200
