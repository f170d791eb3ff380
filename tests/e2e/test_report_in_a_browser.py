"""The report in a real browser: everything is drawn, nothing fails, nothing is asked for."""

import re
from pathlib import Path

import pytest

from app.pipeline.report.page import page
from app.pipeline.report.sections import sections_of
from tests.e2e.chromium import Visit, visit
from tests.report_figures import HOSTILE, full

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
