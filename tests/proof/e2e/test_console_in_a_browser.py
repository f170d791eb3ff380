"""The console in a real browser, against a real service: stories of each page, in both themes, wide and narrow."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.callers import Corp, write_configuration
from tests.gate.unit.console.test_hygiene import FIELDS, write
from tests.klamm import Process, acl, over_socket, wait_until
from tests.proof.e2e.axe import faults
from tests.proof.e2e.chromium import Page

HOSTILE = ("<script>document.title='owned'</script>", "evil\u202egnp.exe", "🦑" * 200, "n" * 5_000)
BOB = "/console?q=" + quote("User:bob WRITE topic:orders from 10.1.2.3")
GROUPS = "/console?q=" + quote("User:dan (groups eng, \u202epii) READ topic:orders from 10.1.2.3")
PAGES = (
    "/console",
    BOB,
    "/console?q=nonsense",
    GROUPS,
    "/console/acls",
    "/console/acls?principal=User:nobody",
    "/console/create",
    "/console/create?preset=streams",
    "/console/create?instead=none",
    "/console/resource",
    "/console/resource?" + urlencode({"type": "TOPIC", "name": "orders"}),
    "/console/resource?" + urlencode({"type": "TOPIC", "name": "moved"}),
    "/console/principal",
    "/console/principal?principal=User:alice",
    "/console/principal?principal=User:alice&view=tree",
    "/console/history",
    "/console/history?at=2099-01-01T00:00:00Z",
    "/console/hygiene",
    "/console/hygiene?run=9",
    "/console/hygiene?run=8",
    "/console/state?at=2099-01-01T00:00:00Z",
    "/console/state",
)

STEPS = ((BOB, "Allow for 8 hours"), ("/console/acls?principal=User:carol", "Change"))
"""Pages that a button leads to: a plan, and an ACL's form."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("console")
    with over_socket("--data-dir", str(folder / "data"), settings={"KLAMM_PIPELINE_HOME": str(folder)}) as running:
        running.ready()
        running.create(
            acl("orders"),
            acl("orders", "User:*", "ALL", permission_type="DENY", host="10.66.0.0/16"),
            acl("pay", "User:carol", "WRITE", pattern_type="PREFIXED", owner="payments"),
            *(acl(name, f"User:{name}", "READ") for name in HOSTILE),
        )
        write_findings(running, folder)
        running.create(*(acl("moved", f"User:{name}"[:200], "WRITE") for name in ("mover", *HOSTILE)))
        running.create(acl("moved"))
        running.delete({"principal": "User:alice", "resource_name": "moved"})
        yield running


def write_findings(service: Process, home: Path) -> None:
    """What a night of the pipeline would have left, in which each ACL of the store was never used."""
    findings = [
        {
            "kind": "UNUSED",
            "acl_id": each["id"],
            "acl": [each[name] for name in FIELDS],
            "why": f"`{each['resource_name']}` was never asked for",
            "is_mended": each["permission_type"] == "ALLOW",
        }
        for each in service.acls()
    ]
    write(home, 9, "listed", {"findings": findings})
    counts = {"UNUSED": len(findings)}
    write(home, 9, "manifest", {"offset": 9, "as_of": "2026-11-22T02:00:00Z", "complete": True, "counts": counts})


@pytest.fixture
def page(service: Process, tmp_path: Path) -> Iterator[Page]:
    with Page(f"{service.url}/console", tmp_path, width=1400) as page:
        yield page


def click(page: Page, text: str) -> None:
    """Click the button or the link with this text, and wait for the page that it leads to."""
    page.ask("window.stays = true")
    found = page.ask(
        "(() => { const it = [...document.querySelectorAll('main button, main a, .top a')].find((each) => "
        f"each.textContent.trim() === {text!r}); if (it) it.click(); return Boolean(it); }})()"
    )
    assert found, f"{text}: {words(page)}"
    page.until("!window.stays && document.readyState === 'complete'")


def words(page: Page) -> str:
    return " ".join(page.ask("document.querySelector('main').innerText").split())


def test_from_a_refusal_to_an_acl_for_eight_hours_and_back(service: Process, page: Page) -> None:
    page.type("#q", "User:bob WRITE topic:orders from 10.1.2.3")
    page.ask("window.stays = true")
    page.press_enter()
    page.until("!window.stays && document.readyState === 'complete'")
    assert "Denied" in words(page)
    click(page, "Allow for 8 hours")
    assert "Gained" in words(page)
    page.type("#comment", "OPS-1 incident")
    click(page, "Create 1 ACL")
    assert "Allowed" in words(page)
    (acl,) = service.acls(principal="User:bob")
    assert acl["expires_at"] is not None
    click(page, "History")
    assert "OPS-1 incident" in words(page)
    click(page, "Undo")
    assert "Lost" in words(page)
    click(page, "Remove 1 ACL")
    assert service.acls(principal="User:bob") == []
    page.go(service.url + BOB)
    assert "Denied" in words(page)
    assert page.said == []


def test_what_was_allowed_for_a_while_ends_and_the_page_says_so(service: Process, page: Page) -> None:
    address = service.url + "/console?q=" + quote("User:erin READ topic:orders from 10.1.2.3")
    for seconds in (6, 12, 24, 48, 96):
        end = datetime.fromtimestamp(int(time.time()) + seconds, UTC)
        service.create(acl("orders", "User:erin", expires_at=end.isoformat()))
        page.go(address)
        if "Allowed" in words(page):
            break
    page.type("#q", "typed meanwhile")
    page.until("document.querySelector('#verdict').innerText.includes('Denied')")
    assert page.ask("document.querySelector('#q').value") == "typed meanwhile"

    def is_told() -> bool:
        page.go(address)
        return "Expired ACLs that allowed it" in words(page)

    wait_until(is_told, "the removal is known")
    click(page, "Allow for 8 hours")
    click(page, "Create 1 ACL")
    assert "Allowed" in words(page)
    assert page.said == []


def test_groups_are_asked_with(service: Process, page: Page) -> None:
    service.create(acl("orders", "Group:eng"))
    page.type("#q", "User:dan (groups eng, pii) READ topic:orders from 10.1.2.3")
    page.ask("window.stays = true")
    page.press_enter()
    page.until("!window.stays && document.readyState === 'complete'")
    assert "Allowed" in words(page)
    assert "User:dan in Group:eng, Group:pii may READ topic orders" in words(page)
    service.delete({"principal": "Group:eng"})


def test_one_changes_and_the_other_sees_it(service: Process, page: Page, tmp_path: Path) -> None:
    page.go(f"{service.url}/console/acls?principal=User:live")
    assert "No ACL matches" in words(page)
    with Page(f"{service.url}/console/history?principal=User:live", tmp_path / "other", width=390) as other:
        wait_until(lambda: service.metric("klamm_watch_readers") >= 2, "both pages read the feed")
        service.create(acl("seen-at-once", "User:live"))
        for each in (page, other):
            each.until("document.querySelector('main').innerText.includes('seen-at-once')")
        page.until("document.querySelector('tr[data-acl].new') !== null")
        service.delete({"principal": "User:live"})
        page.until("!document.querySelector('main').innerText.includes('seen-at-once')")
        assert (page.said, other.said) == ([], [])


def test_a_principal_that_leaves_loses_everything_in_one_plan(service: Process, page: Page) -> None:
    service.create(acl("orders", "User:leaver"), acl("news", "User:leaver", "WRITE"))
    page.go(f"{service.url}/console/principal?principal=User:leaver")
    click(page, "Remove all its ACLs")
    click(page, "Remove 2 ACLs")
    assert service.acls(principal="User:leaver") == []


def test_what_the_last_night_found_is_shown_and_mended(service: Process, page: Page) -> None:
    assert len(service.acls(principal="User:carol")) == 1
    click(page, "Hygiene")
    click(page, "UNUSED 7")
    place = "[...document.querySelectorAll('li')].find((each) => each.innerText.includes('User:carol'))"
    assert page.ask(f"{place}.innerText.includes('pay')")
    page.ask(f"window.stays = true; [...{place}.querySelectorAll('button')].at(-1).click()")
    page.until("!window.stays && document.readyState === 'complete'")
    assert "User:carol WRITE" in words(page)
    click(page, "Remove 1 ACL")
    assert service.acls(principal="User:carol") == []
    assert "It has been removed since" in words(page)
    service.create(acl("pay", "User:carol", "WRITE", pattern_type="PREFIXED", owner="payments"))
    assert page.said == []


def test_one_walks_through_a_tree_of_names_and_a_resources_past(service: Process, page: Page) -> None:
    service.create(acl("walk.eu.", "User:walker", pattern_type="PREFIXED"))
    service.create(acl("walk.eu.paid", "User:walker", "WRITE"))
    page.go(f"{service.url}/console/principal?principal=User:walker")
    click(page, "As a tree of names")
    assert page.ask("document.querySelector('.tree .d1').innerText.includes('walk.eu.paid')")
    click(page, "walk.eu.paid")
    assert "WRITE" in words(page)
    click(page, "Earlier")
    assert "As things stood at" in words(page)
    assert "WRITE" not in page.ask("document.querySelector('section ul.acls').innerText")
    click(page, "Go there")
    assert "As things stood at" in words(page), "the slider stands where the page is"
    service.delete({"principal": "User:walker"})
    assert page.said == []


def test_the_slider_shows_the_past_by_keys_alone(service: Process, page: Page) -> None:
    for operation in ("READ", "WRITE", "DESCRIBE_CONFIGS"):
        service.create(acl("slid", "User:slider", operation))
    address = f"{service.url}/console/resource?type=TOPIC&name=slid"
    page.go(address)
    matrix = "document.querySelectorAll('.matrix .cell.yes').length"
    now = page.ask(matrix)
    page.ask("document.querySelector('#stop').focus()")
    page.press("ArrowLeft")
    page.until("document.querySelector('main').innerText.includes('As things stood at')")
    assert page.ask(matrix) < now
    assert "at=" in page.ask("location.href")
    assert page.ask("document.activeElement.id") == "stop"
    page.press("Home")
    page.until("document.querySelector('#stop').value === '0' && document.querySelectorAll('.cell.yes').length < 4")
    assert page.ask("document.querySelector('#stop').getAttribute('aria-valuetext').includes('READ')")
    sent = page.ask("location.href")
    shown = words(page)
    page.go(sent)
    assert words(page) == shown, "the address is that of the state"
    page.ask("document.querySelector('#stop').focus()")
    page.press("End")
    page.until("!document.querySelector('main').innerText.includes('As things stood at')")
    assert page.ask("location.href") == address
    assert page.ask(matrix) == now
    service.delete({"principal": "User:slider"})
    assert page.said == []


def test_the_slider_needs_no_script(service: Process, tmp_path: Path) -> None:
    for operation in ("READ", "WRITE"):
        service.create(acl("still", "User:still", operation))
    with Page("about:blank", tmp_path, width=1400) as page:
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.go(f"{service.url}/console/resource?type=TOPIC&name=still")
        page.ask("document.querySelector('#stop').value = 0")
        click(page, "Go there")
        assert "As things stood at" in words(page)
    service.delete({"principal": "User:still"})


def test_rates_are_drawn(service: Process, page: Page) -> None:
    page.go(f"{service.url}/console/state")
    service.authorize("User:alice", {"operation": "READ", "resource_type": "TOPIC", "resource_name": "orders"})
    page.until("document.querySelector('#chart canvas') !== null")
    page.until("performance.getEntriesByType('resource').filter((each) => each.name.endsWith('/totals')).length > 1")
    assert page.said == []


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_each_page_is_within_the_screen_for_everybody_and_runs_nothing_of_others(
    service: Process, tmp_path: Path, *, width: int, is_dark: bool
) -> None:
    with Page(f"{service.url}/console", tmp_path, width=width, is_dark=is_dark) as page:
        for number, path in enumerate(PAGES):
            page.go(service.url + path)
            page.keep_picture(f"console-{number:02}-{width}-{'dark' if is_dark else 'light'}")
            page.ask("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
            assert page.ask("document.documentElement.scrollWidth") <= page.width, path
            assert page.ask("document.title.endsWith('Klamm')"), path
            page.said.clear()
            assert (path, faults(page)) == (path, [])
        for step, (path, button) in enumerate(STEPS):
            page.go(service.url + path)
            click(page, button)
            page.keep_picture(f"console-step-{step}-{width}-{'dark' if is_dark else 'light'}")
            assert page.ask("document.documentElement.scrollWidth") <= width, button
            assert (button, faults(page)) == (button, [])


def test_nothing_is_said_and_no_rule_is_broken(
    service: Process, page: Page, check_quiet: Callable[[Page], None]
) -> None:
    for path in PAGES:
        page.go(service.url + path)
        check_quiet(page)


@pytest.fixture
def check_quiet() -> Callable[[Page], None]:
    def check(page: Page) -> None:
        # A 400 of a page is told by the browser itself.
        assert [each for each in page.said if "status of 4" not in each] == []
        page.said.clear()

    return check


def test_a_frame_of_another_site_shows_nothing(service: Process, tmp_path: Path) -> None:
    outside = tmp_path / "outside.html"
    outside.write_text(f'<iframe src="{service.url}/console"></iframe>', encoding="utf-8")
    with Page(outside, tmp_path, width=1400) as page:
        page.until("true")
        assert page.ask("document.querySelector('iframe').contentDocument === null")
        assert any("frame" in each.lower() for each in page.said)


def test_reading_needs_no_script(service: Process, tmp_path: Path) -> None:
    with Page("about:blank", tmp_path, width=1400) as page:
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        for path in PAGES:
            page.call("Page.navigate", url=service.url + path)
        page.call("Emulation.setScriptExecutionDisabled", value=False)
        page.until("document.readyState === 'complete'")
        assert "Ready" in words(page)


@contextmanager
def signing_in(folder: Path) -> Iterator[tuple[Process, Page]]:
    """A service configured in this folder, and the page that it shows who has not signed in."""
    with (
        over_socket("--data-dir", "data", settings={"KLAMM_CONSOLE_ENABLED": "true"}, folder=folder) as guarded,
        Page(guarded.url + BOB, folder / "browser", width=1400) as page,
    ):
        guarded.ready()
        assert "Sign in" in words(page)
        assert faults(page) == []
        yield guarded, page


def test_one_signs_in_and_the_session_ends_with_its_token(tmp_path: Path) -> None:
    tokens = write_configuration(tmp_path, Corp())
    with signing_in(tmp_path) as (guarded, page):
        page.type("#token", tokens["root"])
        click(page, "Sign in")
        assert "Denied" in words(page), "back to the page that was asked for"
        assert page.ask("document.cookie") == "", "no script sees the session"
        click(page, "Allow for 8 hours")
        click(page, "Create 1 ACL")
        assert "Allowed" in words(page)
        file = tmp_path / "klamm.tokens"
        file.write_text("".join(each for each in file.read_text().splitlines(keepends=True) if "root" not in each))

        def is_out() -> bool:
            page.go(guarded.url + BOB)
            return "Sign in" in words(page)

        wait_until(is_out, "the session is over")
        page.type("#token", tokens["platform"])
        click(page, "Sign in")
        assert "Allow for 8 hours" not in words(page)


def test_a_page_stays_useful_over_a_restart(tmp_path: Path) -> None:
    arguments = ["--data-dir", "data"]
    with over_socket(*arguments, folder=tmp_path) as first:
        first.ready().create(acl("orders", "User:early"))
        with Page(f"{first.url}/console/acls", tmp_path / "browser", width=1400) as page:
            assert "User:early" in words(page)
            first.stop()
            port = first.url.rpartition(":")[2]
            # The later --port stands.
            with over_socket(*arguments, "--port", port, folder=tmp_path) as second:
                second.ready().create(acl("orders", "User:late"))
                page.until("document.querySelector('main').innerText.includes('User:late')")
