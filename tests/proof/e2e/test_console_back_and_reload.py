"""Back, Forward and Reload in a real browser: nothing is sent a second time, and nothing that was typed is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.klamm import Process, acl, replica, wait_until
from tests.postgres import Postgres
from tests.proof.e2e.axe import faults
from tests.proof.e2e.chromium import Page
from tests.proof.e2e.test_console_in_a_browser import click, words


@pytest.fixture(scope="module")
def service(postgres: Postgres) -> Iterator[Process]:
    with replica(postgres.new_store()) as running:
        yield running.ready()


def go_in_history(page: Page, steps: int) -> None:
    found = page.call("Page.getNavigationHistory")
    place = found["currentIndex"] + steps
    entry = found["entries"][place]
    page.call("Page.navigateToHistoryEntry", entryId=entry["id"])
    # A page may come back as it was left, with all that its script knows.
    wait_until(lambda: page.call("Page.getNavigationHistory")["currentIndex"] == place, "another page is shown")
    # A page of the browser's own, which asks whether to send a form again, has another address.
    page.until(f"location.href === {entry['url']!r} && document.readyState === 'complete'")


def reload(page: Page) -> None:
    page.ask("window.stays = true")
    page.call("Page.reload")
    page.until("!window.stays && document.readyState === 'complete'")


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_a_change_is_made_once_however_often_its_pages_are_shown(
    service: Process, tmp_path: Path, *, has_script: bool
) -> None:
    principal = f"User:back-{has_script}"
    service.create(acl("orders", principal))
    with Page("about:blank", tmp_path, width=1400) as page:
        page.call("Emulation.setScriptExecutionDisabled", value=not has_script)
        page.go(f"{service.url}/console/acls?principal={principal}")
        click(page, "Remove")
        click(page, "Remove 1 ACL")
        offset = service.metric("klamm_feed_offset")
        for _ in range(2):
            assert "Done at" in words(page)
            assert "No ACL matches" in words(page)
            reload(page)
        go_in_history(page, -1)
        assert "Review the change" in words(page)
        reload(page)
        assert "is already removed" in words(page)
        go_in_history(page, -1)
        assert page.ask("location.pathname") == "/console/acls"
        go_in_history(page, +2)
        assert "Done at" in words(page)
        assert service.metric("klamm_feed_offset") == offset
        page.go(page.ask("location.href"))
        click(page, "Undo this change")
        click(page, "Create 1 ACL")
        assert len(service.acls(principal=principal)) == 1
        offset = service.metric("klamm_feed_offset")
        for _ in range(3):
            go_in_history(page, -1)
        go_in_history(page, +3)
        assert service.metric("klamm_feed_offset") == offset
    service.delete({"principal": principal})


def test_what_was_typed_is_there_again(service: Process, tmp_path: Path) -> None:
    with Page(f"{service.url}/console/create", tmp_path, width=390) as page:
        page.type("#principal", "typed")
        page.type("#resource_name", "orders")
        click(page, "Review")
        assert "typed" in page.ask("document.querySelector('[role=alert]').innerText")
        assert faults(page) == []
        reload(page)
        assert page.ask("document.querySelector('#resource_name').value") == "orders"
        page.type("#principal", "User:typed")
        click(page, "Review")
        assert "Gained" in words(page)
        go_in_history(page, -1)
        assert page.ask("document.querySelector('#principal').value") == "User:typed"
        assert page.ask("document.querySelector('#resource_name').value") == "orders"
        page.type("#principal", "")
        click(page, "Link to these fields")
        assert "form_token" not in page.ask("location.href")
        assert page.ask("document.querySelector('#resource_name').value") == "orders"
        assert service.acls(principal="User:typed") == []
        assert [each for each in page.said if "status of 4" not in each] == []


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_what_was_made_is_told_within_the_screen_and_undone_by_keys_alone(
    service: Process, tmp_path: Path, *, width: int, is_dark: bool
) -> None:
    names = ("n" * 5_000, "<script>document.title='owned'</script>", "evil\u202egnp.exe")
    service.create(*(acl(name, "User:odd") for name in names))
    with Page(f"{service.url}/console/principal?principal=User:odd", tmp_path, width=width, is_dark=is_dark) as page:
        click(page, "Remove all its ACLs")
        page.type("#comment", "c" * 400)
        click(page, "Remove 3 ACLs")
        page.keep_picture(f"console-made-{width}-{'dark' if is_dark else 'light'}")
        assert page.ask("document.documentElement.scrollWidth") <= width
        assert faults(page) == []
        for button in ("Undo this change", "Create 3 ACLs"):
            by_keys(page, button)
        assert len(service.acls(principal="User:odd")) == len(names)
        assert page.said == []
    service.delete({"principal": "User:odd"})


def by_keys(page: Page, button: str) -> None:
    """Tab to the button, and press it."""
    while page.ask("document.activeElement.textContent.trim()") != button:
        page.press("Tab")
        assert not page.ask("document.activeElement.closest('footer')"), button
    page.ask("window.stays = true")
    page.press_enter()
    page.until("!window.stays && document.readyState === 'complete'")
