"""The slider over a resource's past: its stops, where it stands, and where it leads without a script."""

import re
from html import unescape
from urllib.parse import urlencode

import pytest

from tests.browser import Browser, Seen
from tests.gate.unit.console.test_guards import HOSTILE, check_harmless
from tests.klamm import InProcess, acl

ORDERS = "/console/resource?type=TOPIC&name=orders"
MAX_IN_ADDRESS = 4_000
PEOPLE = ("bob", "carol", "dave", "erin")


@pytest.fixture
async def tokens(service: InProcess) -> list[str]:
    """The states after each of four ACLs on `orders`, with an ACL on another topic behind each."""
    found = []
    for each in PEOPLE:
        await service.create(acl("orders", f"User:{each}"))
        found.append(str(service.authorizer.image.token))
        await service.create(acl(f"other-{each}", "User:zoe"))
    return found


def slider(page: Seen) -> dict[str, str]:
    (found,) = [each for tag, each in page.elements if tag == "input" and each.get("type") == "range"]
    return found


def links(page: Seen) -> dict[str, str]:
    return {each["rel"]: each["href"] for _, each in page.elements if each.get("rel") in ("prev", "next")}


async def test_each_stop_is_a_change_of_the_resource_itself(browser: Browser, tokens: list[str]) -> None:
    page = await browser.go(ORDERS)
    found = slider(page)
    assert (found["min"], found["max"], found["value"]) == ("0", "3", "3")
    assert found["aria-valuetext"].strip().startswith("Now, since 20")
    assert found["aria-valuetext"].strip().endswith("by User:admin: created ALLOW READ")
    behind = page.reply.text.partition('class="stops"')[2].partition("</ol>")[0]
    addresses = [unescape(each) for each in re.findall('href="([^"]+)"', behind)]
    assert addresses == [ORDERS, *(f"{ORDERS}&{urlencode({'at': each})}" for each in reversed(tokens[:-1]))]


@pytest.mark.parametrize("stop", range(4))
async def test_a_form_leads_to_the_state_of_its_stop(browser: Browser, tokens: list[str], stop: int) -> None:
    page = await browser.go(ORDERS)
    form = page.form("Go there")
    assert (form.action, form.method) == ("/console/resource/at", "get")
    there = await browser.go(f"{form.action}?{urlencode({**form.fields, 'stop': str(stop)})}")
    at = {} if stop == len(tokens) - 1 else {"at": tokens[stop]}
    assert (
        str(there.reply.url.raw_path, "ascii") == f"{ORDERS}{''.join('&' + urlencode({k: v}) for k, v in at.items())}"
    )
    assert [each for each in PEOPLE if f"User:{each}" in there.text] == list(PEOPLE[: stop + 1])
    assert slider(there)["value"] == str(stop)


async def test_one_steps_through_the_history_of_a_resource(service: InProcess, browser: Browser) -> None:
    for name in ("first", "second", "third"):
        await service.create(acl("orders", f"User:{name}"))
    page = await browser.go("/console/resource?type=TOPIC&name=orders")
    assert slider(page)["max"] == "2"
    page = await browser.go(_link(page, "prev"))
    assert "As things stood at" in page.text
    assert ("User:second" in _matrix(page), "User:third" in _matrix(page)) == (True, False)
    page = await browser.go(_link(page, "prev"))
    assert "User:second" not in _matrix(page)
    assert not [each for _, each in page.elements if each.get("rel") == "prev"]
    page = await browser.go(_link(await browser.go(_link(page, "next")), "next"))
    assert "User:third" in _matrix(page)


async def test_stops_of_older_epochs_are_of_the_same_history(service: InProcess, browser: Browser) -> None:
    for name in ("first", "second"):
        await service.create(acl("orders", f"User:{name}"))
    service.store.begin_epoch()
    await service.create(acl("other", "User:zoe"))
    found = slider(await browser.go(ORDERS))
    assert (found["max"], found["value"]) == ("1", "1")
    await service.create(acl("orders", "User:third"))
    page = await browser.go(ORDERS)
    assert (slider(page)["max"], slider(page)["value"]) == ("2", "2")
    then = await browser.go(_link(page, "prev"))
    assert ("User:second" in _matrix(then), "User:third" in _matrix(then)) == (True, False)
    assert (slider(then)["value"], "next" in links(then)) == ("1", True)


def _link(page: Seen, rel: str) -> str:
    (found,) = [each["href"] for _, each in page.elements if each.get("rel") == rel]
    return found


def _matrix(page: Seen) -> str:
    return page.text.partition("Who may do what")[2].partition("ACLs that cover it")[0]


async def test_a_stop_keeps_its_state_while_others_make_changes(
    service: InProcess, browser: Browser, tokens: list[str]
) -> None:
    form = (await browser.go(ORDERS)).form("Go there")
    await service.create(acl("orders", "User:late", "WRITE"))
    there = await browser.go(f"{form.action}?{urlencode({**form.fields, 'stop': '1'})}")
    assert there.reply.url.params["at"] == tokens[1]
    assert slider(there)["max"] == "4"


async def test_between_two_stops_the_earlier_one_is_shown(browser: Browser, tokens: list[str]) -> None:
    epoch, _, offset = tokens[1].partition(":")
    page = await browser.go(f"{ORDERS}&at={epoch}:{int(offset) + 1}")
    assert slider(page)["value"] == "1"
    assert [each.rpartition("=")[2] for each in (links(page)["prev"], links(page)["next"])] == [
        urlencode({"": token})[1:] for token in (tokens[1], tokens[2])
    ]
    page = await browser.go(f"{ORDERS}&at={epoch}:0")
    assert slider(page)["aria-valuetext"] == "before the known history"
    assert "prev" not in links(page)
    assert links(page)["next"].endswith(urlencode({"at": tokens[0]}))


@pytest.mark.parametrize("wrong", ["4", "-1", "x", "9" * 5_000, "²"])
async def test_what_is_no_stop_is_said(browser: Browser, tokens: list[str], wrong: str) -> None:
    form = (await browser.go(ORDERS)).form("Go there")
    page = await browser.go(f"{form.action}?{urlencode({**form.fields, 'stop': wrong})}", 400)
    assert "is not one of the 4 known changes" in page.text
    assert len(tokens) == len(PEOPLE)


async def test_what_is_no_resource_is_said(browser: Browser) -> None:
    assert "do not name a resource" in (await browser.go("/console/resource/at?stop=0", 400)).text


@pytest.mark.parametrize("odd", [each for each in HOSTILE if len(each) < MAX_IN_ADDRESS])
async def test_hostile_names_are_text_in_its_stops(service: InProcess, browser: Browser, odd: str) -> None:
    for operation in ("READ", "WRITE"):
        await service.create(acl(odd, operation=operation))
    page = await browser.go(f"/console/resource?{urlencode({'type': 'TOPIC', 'name': odd})}")
    check_harmless(page.reply.text)
    form = page.form("Go there")
    there = await browser.go(f"{form.action}?{urlencode({**form.fields, 'stop': '0'})}")
    check_harmless(there.reply.text)
    assert slider(there)["value"] == "0"


async def test_the_next_page_of_principals_is_of_the_same_state(service: InProcess, browser: Browser) -> None:
    await service.create(*(acl("orders", f"User:{at:03}") for at in range(101)))
    then = str(service.authorizer.image.token)
    await service.create(acl("orders", "User:zoe"))
    page = await browser.go(f"{ORDERS}&{urlencode({'at': then})}")
    (more,) = [each["href"] for _, each in page.elements if "cursor=" in each.get("href", "")]
    rest = await browser.go(more)
    assert "User:100" in rest.text
    assert "As things stood at" in rest.text
    assert "User:zoe" not in rest.text
