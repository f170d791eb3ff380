"""The report in a real browser: everything is drawn, nothing fails, nothing is asked for."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.pipeline.report.page import page
from app.pipeline.report.sections import sections_of
from app.pipeline.report.text import visible
from tests.e2e.chromium import Page, Visit, visit
from tests.e2e.service import eventually
from tests.report_figures import HOSTILE, LONG, full

CELLS = len(HOSTILE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def hostile(folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(page(full(HOSTILE)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def seen(hostile: Path, folder: Path) -> Visit:
    return visit(hostile, folder)


def test_every_chart_is_drawn(seen: Visit) -> None:
    root = re.search(r"<html[^>]*>", seen.document)
    assert root is not None
    assert f'data-drawn="{len(sections_of(full(HOSTILE)))}"' in root[0]
    assert "data-fault" not in root[0]
    charts = re.split(r'(?=id="chart-)', seen.document)[1:]
    assert len(charts) == len(sections_of(full(HOSTILE)))
    assert all("main-svg" in chart for chart in charts)
    assert 'class="hm"' in charts[0] or "<image" in charts[0]
    bars = {re.match(r'id="chart-([\w-]+)"', chart)[1]: len(re.findall(r'class="point"', chart)) for chart in charts}  # type: ignore[index]  # it was split there
    assert bars["what-if"] == 2 * CELLS
    assert bars["hygiene"] == 2
    assert bars["busiest"] == 2 * CELLS


def test_hostile_names_are_drawn_as_text_and_run_nothing(seen: Visit) -> None:
    assert not re.search(r"<(?:img|iframe|object|embed|a)\b[^>]*(?:onerror|evil\.example)", seen.document)
    drawn = re.split(r'(?=id="chart-)', seen.document)[1]
    assert "&lt;img src=x one" in drawn
    assert len(re.findall(r"<script\b", seen.document)) == 5, "a name made a script element"


def test_nothing_is_said_on_the_console_and_no_rule_is_broken(seen: Visit) -> None:
    assert seen.console == []
    assert "data-violation" not in seen.document


def test_nothing_is_asked_for_but_the_file_itself(seen: Visit, hostile: Path) -> None:
    assert [url for url in seen.requests if not url.startswith(("data:", "blob:", "chrome:", "devtools:"))] in (
        [],
        [hostile.as_uri()],
    )


def test_the_policy_stops_what_a_spoiled_page_would_do(hostile: Path, folder: Path) -> None:
    # Were the escaping to fail one day, the policy still holds: neither script nor image of a stranger.
    spoiled = folder / "spoiled.html"
    foreign = '<script>document.documentElement.dataset.pwned="1"</script><img src="http://127.0.0.1:9/pixel">'
    spoiled.write_text(hostile.read_text(encoding="utf-8").replace("<main>", f"<main>{foreign}"), encoding="utf-8")
    seen = visit(spoiled, folder)
    assert "data-pwned" not in seen.document
    assert not [url for url in seen.requests if "127.0.0.1:9" in url]


def test_dark_and_narrow_it_is_drawn_as_well(hostile: Path, folder: Path) -> None:
    seen = visit(hostile, folder, "--blink-settings=preferredColorScheme=0", "--window-size=390,800")
    assert f'data-drawn="{len(sections_of(full(HOSTILE)))}"' in seen.document
    assert seen.console == []
    # The card's colour of the dark look.
    assert "rgb(24, 30, 38)" in seen.document


NAMES = (*HOSTILE, *LONG, "orders")
_OVERFLOW = """[...document.querySelectorAll('body *')].filter((each) =>
  !each.closest('.chart, thead') && each.getClientRects().length &&
  each.getBoundingClientRect().right > WIDTH + 1 &&
  getComputedStyle(each).position !== 'absolute').map((each) => each.outerHTML.slice(0, 200))"""
_OPEN = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"


@pytest.fixture(scope="module", params=[(1400, False), (390, True), (390, False)], ids=["wide", "dark", "narrow"])
def shown(request: pytest.FixtureRequest, folder: Path) -> Iterator[Page]:
    path = folder / "long.html"
    path.write_text(page(full(NAMES)), encoding="utf-8")
    width, is_dark = request.param
    with Page(path, folder, width=width, is_dark=is_dark) as shown:
        shown.until(f"document.documentElement.dataset.drawn === '{len(sections_of(full(NAMES)))}'")
        yield shown


def _answer(shown: Page, asked: str) -> str:
    shown.type("#find", asked)
    shown.press_enter()
    answer: str = shown.ask("document.getElementById('answer').innerText")
    return answer


def test_the_box_finds_whatever_the_name_and_shows_it_as_text(shown: Page) -> None:
    for name in NAMES:
        answer = _answer(shown, f" {visible(name).upper()} ")
        assert answer.partition("\n")[0] == f"topic {visible(name)}"
        assert "can READ" in answer
        assert "last read\n2025-11-22 00:06 UTC" in answer.replace("\n\n", "\n")
    assert shown.ask("document.querySelectorAll('script').length") == 5
    assert shown.said == []
    assert shown.ask("document.documentElement.dataset.violation") is None


def test_who_is_found_leads_on_and_nothing_is_found_says_so(shown: Page) -> None:
    _answer(shown, "orders")
    shown.ask("document.querySelector('#answer .pick').click()")
    assert "ACLs of its own" in shown.ask("document.getElementById('answer').innerText")
    shown.type("#find", "no-such-name")
    assert "No name in this file" in shown.ask("document.getElementById('found').innerText")
    assert shown.ask("document.getElementById('answer').hidden")


def test_a_command_is_copied_as_it_stands(shown: Page) -> None:
    _answer(shown, "orders")
    shown.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    shown.ask("document.querySelector('#answer .copy').click()")
    shown.until("document.querySelector('#answer .copy').textContent === 'Copied'")
    assert shown.ask("navigator.clipboard.readText()") == "klamm pipeline who 'topic:orders'"
    # What can't be seen in a name is spelled out: as a command that would be about another name.
    assert "klamm pipeline" not in _answer(shown, visible(HOSTILE[4]))


def test_nothing_is_wider_than_the_screen_and_no_name_pushes_a_number_off(shown: Page) -> None:
    shown.ask(_OPEN)
    for name in ("orders", LONG[1]):
        _answer(shown, name)
        # Not innerWidth, which grows with a page that is too wide for a telephone.
        assert shown.ask("document.documentElement.scrollWidth") <= shown.width
        assert shown.ask(_OVERFLOW.replace("WIDTH", str(shown.width))) == []


def test_more_is_stronger_on_both_grounds(shown: Page) -> None:
    scale = shown.ask("document.getElementById('chart-access').data[0].colorscale.map((each) => each[1])")
    ground = shown.ask("getComputedStyle(document.querySelector('section')).backgroundColor")
    red, green, blue = (int(each) for each in re.findall(r"\d+", ground)[:3])
    contrasts = [abs(_light(colour) - _luminance(red, green, blue)) for colour in scale]
    assert contrasts == sorted(contrasts)
    assert len(set(contrasts)) == len(contrasts)


def _light(colour: str) -> float:
    return _luminance(*(int(colour[at : at + 2], 16) for at in (1, 3, 5)))


def _luminance(red: int, green: int, blue: int) -> float:
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


_CENTRE = """(() => { const place = document.getElementById('chart-access'), { xaxis, yaxis } = place._fullLayout;
  place.scrollIntoView({ block: 'center' });
  const { left, top } = place.getBoundingClientRect();
  return [left + xaxis._offset + xaxis.l2p(COLUMN), top + yaxis._offset + yaxis.l2p(ROW)]; })()"""


_HOVER_S = 0.2


def _click_cell(shown: Page, row: int, column: int) -> str:
    def is_found() -> bool:
        x, y = shown.ask(_CENTRE.replace("ROW", str(row)).replace("COLUMN", str(column)))
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            shown.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            # A chart finds the cell below the mouse when it has the time, and takes a click for that cell's.
            time.sleep(_HOVER_S)
        return bool(shown.ask("document.getElementById('found').children.length > 1"))

    eventually(is_found, "the cell is clicked")
    found: str = shown.ask("document.getElementById('found').innerText")
    return " ".join(found.split())


def test_a_cell_leads_to_whom_and_what_it_counts(tmp_path: Path) -> None:
    path = tmp_path / "cells.html"
    path.write_text(page(full(("ord", "pay"))), encoding="utf-8")
    with Page(path, tmp_path, width=1400) as shown:
        shown.until(f"document.documentElement.dataset.drawn === '{len(sections_of(full(('ord', 'pay'))))}'")
        found = _click_cell(shown, 1, 1)
        assert found == "topics with the prefix pay: pay principals of the team ord: ord"
        assert shown.ask("document.activeElement.textContent") == "pay"
        shown.ask("document.activeElement.click()")
        assert "can READ" in shown.ask("document.getElementById('answer').innerText")
        # The table says the same for those who use no mouse.
        shown.ask("document.querySelector('#access tbody .pick').click()")
        found = " ".join(shown.ask("document.getElementById('found').innerText").split())
        assert found == "topics with the prefix ord: ord principals of the team everyone: none in this file"
        assert shown.said == []


def test_it_looks_as_the_console_does_in_the_colours_that_one_chooses(shown: Page) -> None:
    charts = len(sections_of(full(NAMES)))
    for look, card in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(24, 30, 38)"), ("", None)):
        drawn = int(shown.ask("document.documentElement.dataset.drawn"))
        shown.ask(f"theme.value = '{look}'; theme.dispatchEvent(new Event('change'))")
        shown.until(f"Number(document.documentElement.dataset.drawn) === {drawn + charts}")
        if card is not None:
            shown.keep_picture(f"report-{shown.width}-{look}")
            assert shown.ask("getComputedStyle(document.querySelector('.card')).backgroundColor") == card
            assert shown.ask("document.querySelector('#chart-growth .main-svg').style.background") == card
    assert shown.said == []
