"""The report in a real browser: everything is drawn, nothing fails, nothing is asked for."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.readable import visible
from app.pipeline.report.page import page
from app.pipeline.report.sections import sections_of
from tests.proof.e2e.chromium import Page, Visit, visit
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
    assert len(re.findall(r"<script\b", seen.document)) == 3, "a name made a script element"


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


def test_no_name_runs_anything(shown: Page) -> None:
    shown.ask(_OPEN)
    assert shown.ask("document.querySelectorAll('script').length") == 3
    assert shown.said == []
    assert shown.ask("document.documentElement.dataset.violation") is None


def test_a_command_is_copied_as_it_stands(shown: Page) -> None:
    shown.ask(_OPEN)
    shown.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    command = "kafka-acls --remove <img src=x onerror=alert(1)>"
    button = f"""[...document.querySelectorAll('.command')]
        .find((each) => each.querySelector('code').textContent === {command!r}).querySelector('.copy')"""
    shown.ask(f"{button}.click()")
    shown.until(f"{button}.textContent === 'Copied'")
    assert shown.ask("navigator.clipboard.readText()") == command
    # What can't be seen in a name is spelled out: as a command that would be about another name.
    assert shown.ask("document.querySelector('.spelled .copy')") is None
    assert shown.ask("document.querySelectorAll('.command .copy').length") == len(
        [name for name in NAMES if visible(name) == name]
    )


def test_nothing_is_wider_than_the_screen_and_no_name_pushes_a_number_off(shown: Page) -> None:
    shown.ask(_OPEN)
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
