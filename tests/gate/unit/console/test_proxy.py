"""Signing in at a proxy in front, which sends each person's own token: it is proved, and nothing else is believed."""

from dataclasses import replace

import pytest
from starlette.types import Receive, Scope, Send

from tests.browser import Browser, Seen, browsing
from tests.callers import CALLERS
from tests.gate.unit.console.test_ask import BOB
from tests.gate.unit.console.test_guards import sign_in
from tests.klamm import InProcess, acl


async def seen(browser: Browser, *headers: tuple[str, str]) -> Seen:
    lines = [(name.encode(), value.encode()) for name, value in headers]
    reply = await browser.client.get("/console/acls", headers=lines, follow_redirects=True)
    assert reply.status_code == 200
    return Seen(reply)


async def test_the_token_that_a_proxy_sends_is_whose_page_it_is(with_callers: InProcess, stranger: Browser) -> None:
    stranger.client.headers["authorization"] = f"Bearer {with_callers.tokens['root']}"
    page = await stranger.go(BOB)
    assert "caller root" in " ".join(page.text.split())
    assert "Sign out" not in page.buttons, "one signs out where one has signed in"
    plan = await stranger.send(page.form("Allow for 8 hours"))
    assert "Allowed" in (await stranger.send(plan.form("Create 1 ACL"))).text
    assert with_callers.tokens["root"] not in str(stranger.client.cookies)
    del stranger.client.headers["authorization"]
    assert (await stranger.go(BOB)).reply.url.path == "/console/sign-in", "nothing of it is kept"


@pytest.mark.parametrize(
    "header",
    [
        ("x-forwarded-user", "root"),
        ("x-forwarded-email", "root"),
        ("x-auth-request-user", "User:admin"),
        ("x_forwarded_user", "root"),
        ("remote-user", "root"),
        ("x-forwarded-access-token", "{root}"),
        ("proxy-authorization", "Bearer {root}"),
        ("authorization_", "Bearer {root}"),
        ("authorization", "{root}"),
        ("authorization", "Bearer"),
        ("authorization", "Bearer "),
        ("authorization", "Bearer\t{root}"),
        ("authorization", "Bearer {root} {root}"),
        ("authorization", "Bearer {root},Bearer {root}"),
        ("authorization", "Basic cm9vdDpyb290"),
        ("authorization", "Bearer root"),
        ("authorization", "Bearer é"),
    ],
)
async def test_no_other_header_signs_anybody_in(
    with_callers: InProcess, stranger: Browser, header: tuple[str, str]
) -> None:
    name, value = header
    page = await seen(stranger, (name, value.format(root=with_callers.tokens["root"])))
    assert page.reply.url.path == "/console/sign-in"


async def test_doubled_headers_are_nobodys(with_callers: InProcess, stranger: Browser) -> None:
    root, observer = (f"Bearer {with_callers.tokens[each]}" for each in ("root", "prometheus"))
    for lines in ((root, observer), (observer, root), (root, root), ("Basic x", root), (root, "Basic x")):
        page = await seen(stranger, *(("authorization", each) for each in lines))
        assert page.reply.url.path == "/console/sign-in", lines


async def test_the_header_counts_alone_whatever_the_cookie_holds(with_callers: InProcess, stranger: Browser) -> None:
    await with_callers.create(acl("secret-topic", "User:bob"))
    await sign_in(stranger, with_callers.tokens["root"])
    assert "secret-topic" in (await seen(stranger)).text
    page = await seen(stranger, ("authorization", f"Bearer {with_callers.tokens['platform']}"))
    assert "secret-topic" not in page.text
    assert "caller platform" in " ".join(page.text.split())
    page = await seen(stranger, ("authorization", "Bearer unknown"))
    assert page.reply.url.path == "/console/sign-in"
    assert "secret-topic" in (await seen(stranger, ("authorization", "Basic cm9vdDpyb290"))).text


async def test_a_proxy_with_a_certificate_lends_it_to_nobody_who_sends_a_header(with_callers: InProcess) -> None:
    credentials = with_callers.callers._credentials
    assert credentials is not None
    with_callers.callers._credentials = replace(credentials, certificates={"DNS:proxy": CALLERS["root"]})

    async def over_tls(scope: Scope, receive: Receive, send: Send) -> None:
        await with_callers.app({**scope, "klamm.names": ("DNS:proxy",)}, receive, send)

    async with browsing(over_tls) as browser:
        assert "caller root" in " ".join((await seen(browser)).text.split())
        for value in ("", "Bearer", "Bearer x", "Basic x", "Bearer\tx"):
            page = await seen(browser, ("authorization", value))
            assert page.reply.url.path == "/console/sign-in", value


async def test_another_site_can_do_nothing_through_a_proxys_token(with_callers: InProcess, stranger: Browser) -> None:
    stranger.client.headers["authorization"] = f"Bearer {with_callers.tokens['root']}"
    plan = await stranger.send((await stranger.go(BOB)).form("Allow for good"))
    form = plan.form("Create 1 ACL")
    reply = await stranger.client.post(form.action, data=form.fields, headers={"sec-fetch-site": "cross-site"})
    assert reply.status_code == 403
    # SameSite keeps the cookie away from other sites' forms, and each form belongs to its cookie.
    async with browsing(with_callers.app) as other:
        other.client.headers["authorization"] = stranger.client.headers["authorization"]
        assert (await other.client.post(form.action, data=form.fields)).status_code == 400
    assert with_callers.authorizer.image.acl_count == 0


async def test_without_callers_a_header_changes_nothing(service: InProcess, browser: Browser) -> None:
    await service.create(acl("orders", "User:bob"))
    for value in ("Bearer x", "Basic x", ""):
        assert "acting as User:admin" in " ".join((await seen(browser, ("authorization", value))).text.split())
