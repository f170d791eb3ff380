"""Who sees properties, and with them who the super users are: nothing shows them without DESCRIBE_CONFIGS."""

import json
import re
from pathlib import Path

import httpx
import pytest

from app.console.routes import console_routes
from app.core.kafka.errors import ClusterAuthorizationException
from app.rest.app import AppOptions
from app.rest.callers.roles import read
from app.rest.openapi import build_openapi
from tests.browser import KEY, Browser, browsing
from tests.callers import CALLERS
from tests.gate.unit.console.test_guards import sign_in
from tests.gate.unit.rest.test_bad_input import BODIES
from tests.klamm import InProcess, Json, acl, in_process

HIDDEN = "User:hidden-operator"
PLATFORM = {"principal": "User:platform", "client_address": "127.0.0.1"}
PAGES = ("", "/acls", "/resource?type=TOPIC&name=orders", "/principal?principal=User:alice", "/history", "/state")
WHO = {"context": PLATFORM, "resource": {"resource_type": "TOPIC", "resource_name": "orders"}}


def right(operation: str) -> Json:
    return acl("kafka-cluster", "User:platform", operation, resource_type="CLUSTER")


async def prepare(service: InProcess, *operations: str) -> None:
    """A super user who is nothing else, and the rights of User:platform."""
    await service.configure("super.users", f"User:admin;{HIDDEN}")
    await service.create(acl("orders"), *map(right, operations))


async def replies(it: InProcess) -> dict[str, httpx.Response]:
    """What each route answers User:platform, but for watch, which needs a socket."""
    found = {}
    for path, methods in build_openapi()["paths"].items():
        for method in map(str.upper, methods):
            if method == "POST" and path in BODIES:
                body = {**BODIES[path], "context": PLATFORM}
                found[f"POST {path}"] = await it.send(path, body, "platform")
            elif method == "GET" and "{" not in path and path != "/v1/watch":
                found[f"GET {path}"] = await it.send(path, caller="platform", method="GET")
    return found


async def test_no_route_shows_a_property_to_who_may_see_acls_only(tmp_path: Path) -> None:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as it:
        await prepare(it, "DESCRIBE")
        found = await replies(it)
        assert {name for name, reply in found.items() if HIDDEN in reply.text} == set()
        assert {name for name, reply in found.items() if reply.status_code == 403} >= {"GET /v1/configs"}
        answered = {name for name, reply in found.items() if reply.status_code == 200}
        assert answered >= {"POST /v1/who-can", "POST /v1/what-can", "POST /v1/history", "GET /metrics"}


async def test_who_can_says_whether_super_users_are_shown(tmp_path: Path) -> None:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as it:
        await prepare(it, "DESCRIBE")
        token = (await it.send("/v1/who-can", WHO, "platform")).json()["token"]
        for more in ({}, {"at": token}):
            found = (await it.send("/v1/who-can", {**WHO, **more}, "platform")).json()
            assert (found["super_users"], found["super_users_shown"]) == ([], False)
        await it.create(right("DESCRIBE_CONFIGS"))
        for more in ({}, {"at": token}):
            found = (await it.send("/v1/who-can", {**WHO, **more}, "platform")).json()
            assert (found["super_users"], found["super_users_shown"]) == (["User:admin", HIDDEN], True)
        # The right of now counts, whatever it was at the time that is asked about.
        denied = [acl("kafka-cluster", "User:*", "DESCRIBE_CONFIGS", resource_type="CLUSTER", permission_type="DENY")]
        await it.create(*denied)
        found = (await it.send("/v1/who-can", {**WHO, "at": token}, "platform")).json()
        assert (found["super_users"], found["super_users_shown"]) == ([], False)


async def test_the_feed_needs_the_rights_to_all_that_it_shows(tmp_path: Path) -> None:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as it:

        def check(caller: str) -> None:
            reader = read(CALLERS[caller], {"type": "http", "client": ("127.0.0.1", 7)})
            it.authorizer.rights.check_watch(reader)

        for each in ("DESCRIBE", "DESCRIBE_CONFIGS"):
            with pytest.raises(ClusterAuthorizationException):
                check("platform")
            await it.create(right(each))
        check("platform")
        denied = acl("kafka-cluster", "User:platform", "DESCRIBE", resource_type="CLUSTER", permission_type="DENY")
        await it.create(denied)
        with pytest.raises(ClusterAuthorizationException):
            check("platform")
        # A caller that may watch by its role needs no right.
        check("prometheus")


@pytest.mark.parametrize(
    ("caller", "rights", "status"),
    [
        ("prometheus", (), 200),
        ("root", (), 200),
        ("platform", (), 403),
        ("platform", ("DESCRIBE_CONFIGS",), 403),
        ("platform", ("DESCRIBE",), 200),
        ("anyone", ("DESCRIBE",), 403),
        (None, (), 401),
    ],
)
async def test_who_may_read_the_metrics(
    tmp_path: Path, caller: str | None, rights: tuple[str, ...], status: int
) -> None:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as it:
        await prepare(it, *rights)
        assert (await it.send("/metrics", caller=caller, method="GET")).status_code == status


async def signed_in(it: InProcess, browser: Browser) -> dict[str, str]:
    """The text of each page for User:platform."""
    await sign_in(browser, it.tokens["platform"])
    return {path: (await browser.client.get(f"/console{path}")).text for path in PAGES}


async def test_the_console_shows_no_property_to_who_may_see_acls_only(tmp_path: Path) -> None:
    async with (
        in_process(tokens_file=tmp_path / "klamm.tokens", around=AppOptions(console=console_routes(KEY))) as it,
        browsing(it.app) as browser,
    ):
        await prepare(it, "DESCRIBE")
        pages = await signed_in(it, browser)
        assert not [path for path, text in pages.items() if HIDDEN in text]
        assert "Who they are is not shown" in pages["/resource?type=TOPIC&name=orders"]
        for path in ("/acls", "/history"):
            assert "Reload this page to see later changes" in pages[path]
            assert "/console/events" not in pages[path]
        assert (await browser.client.get(f"/console/events?after={json.dumps('x')}")).status_code in (400, 403)
        assert "Memory" in pages["/state"]


async def test_the_console_shows_all_to_who_may_see_both(tmp_path: Path) -> None:
    async with (
        in_process(tokens_file=tmp_path / "klamm.tokens", around=AppOptions(console=console_routes(KEY))) as it,
        browsing(it.app) as browser,
    ):
        await prepare(it, "DESCRIBE", "DESCRIBE_CONFIGS")
        pages = await signed_in(it, browser)
        assert HIDDEN in pages["/resource?type=TOPIC&name=orders"]
        for path in ("/acls", "/history"):
            assert "Reload this page" not in pages[path]
            assert re.search(r'hx-sse:connect="/console/events', pages[path])


async def test_the_state_page_shows_figures_to_who_may_read_them(tmp_path: Path) -> None:
    async with (
        in_process(tokens_file=tmp_path / "klamm.tokens", around=AppOptions(console=console_routes(KEY))) as it,
        browsing(it.app) as browser,
    ):
        await prepare(it)
        pages = await signed_in(it, browser)
        assert "Memory" not in pages["/state"]
        assert "needs DESCRIBE on the cluster" in pages["/state"]
        assert "Ready" in pages["/state"]
        assert 'href="/console/state"' not in pages[""]
