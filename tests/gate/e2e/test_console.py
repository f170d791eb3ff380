"""The console over a socket, without a script: a person signs in, makes a change, and takes it back."""

import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import httpx
import pytest

from tests.browser import Browser
from tests.gate.e2e.conftest import Guarded
from tests.klamm import LIMIT_S, Process, action


def browser_of(client: httpx.AsyncClient) -> Browser:
    client.headers.update({"sec-fetch-site": "same-origin", "origin": str(client.base_url).rstrip("/")})
    return Browser(client)


@pytest.fixture
async def browser(service: Process) -> AsyncIterator[Browser]:
    """Where no callers are configured, everybody is let in."""
    async with httpx.AsyncClient(base_url=service.url, timeout=LIMIT_S) as client:
        yield browser_of(client)


@pytest.fixture
async def stranger(guarded: Guarded) -> AsyncIterator[Browser]:
    """Where callers are configured."""
    trusted = ssl.create_default_context(cafile=guarded.authority.file)
    async with httpx.AsyncClient(base_url=guarded.service.url, timeout=LIMIT_S, verify=trusted) as client:
        yield browser_of(client)


def question(principal: str, topic: str) -> str:
    return "/console?" + urlencode({"q": f"{principal} READ topic:{topic} from 10.1.2.3"})


async def test_an_acl_for_eight_hours_is_made_and_taken_back(service: Process, browser: Browser, name: str) -> None:
    page = await browser.go(question("User:bob", name))
    assert "Denied" in page.text
    plan = await browser.send(page.form("Allow for 8 hours"))
    done = await browser.send(plan.form("Create 1 ACL"), comment="OPS-1")
    assert "Allowed" in done.text
    (made,) = service.acls(resource_name=name)
    assert (made["principal"], made["expires_at"] is None) == ("User:bob", False)
    assert "Allowed" in (await browser.go(question("User:bob", name))).text
    back = await browser.send(done.form("Undo this change"))
    await browser.send(back.form("Remove 1 ACL"))
    assert service.acls(resource_name=name) == []
    assert service.authorize("User:bob", action(name)) == ["DENIED"]


async def test_one_signs_in_with_a_token_and_out_again(guarded: Guarded, stranger: Browser, name: str) -> None:
    page = await stranger.go(question("User:bob", name))
    assert page.reply.url.path == "/console/sign-in"
    wrong = await stranger.send(page.form("Sign in"), 401, token="nonsense")
    assert "Denied" not in wrong.text
    page = await stranger.send(wrong.form("Sign in"), token=guarded.tokens["root"])
    assert "Denied" in (await stranger.go(question("User:bob", name))).text
    (cookie,) = stranger.client.cookies.jar
    assert cookie.secure
    await stranger.send((await stranger.go("/console")).form("Sign out"))
    assert (await stranger.go(question("User:bob", name))).reply.url.path == "/console/sign-in"


async def test_a_page_of_another_site_changes_nothing(service: Process, browser: Browser, name: str) -> None:
    plan = await browser.send((await browser.go(question("User:bob", name))).form("Allow for good"))
    form = plan.form("Create 1 ACL")
    reply = await browser.client.post(form.action, data=form.fields, headers={"sec-fetch-site": "cross-site"})
    assert reply.status_code == 403
    assert service.acls(resource_name=name) == []
