"""What the package holds of others: pinned, licensed, small."""

import hashlib
import json
from pathlib import Path

import app.console
from app.console.pages import assets
from tests.browser import Browser

STATIC = Path(app.console.__file__).parent / "static"
VENDORED = json.loads((STATIC / "vendored.json").read_text(encoding="utf-8"))
MAX_BYTES = 150_000


def test_each_file_of_others_is_the_one_that_is_pinned_and_has_its_licence() -> None:
    pinned = {name: each["sha256"] for package in VENDORED.values() for name, each in package["files"].items()}
    for name, sha256 in pinned.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == sha256, name
    licences = {package["license_file"] for package in VENDORED.values()}
    assert all((STATIC / each).read_text(encoding="utf-8").strip() for each in licences)
    own = {"console.css", "console.js", "icon.svg", "vendored.json"}
    assert {each.name for each in STATIC.iterdir()} - own == {*pinned, *licences}


def test_a_browser_fetches_less_than_150_kb_in_all() -> None:
    assert sum(len(each.content) for each in assets().values()) <= MAX_BYTES


def test_nothing_in_it_makes_code_of_text() -> None:
    for each in STATIC.glob("*.js"):
        text = each.read_text(encoding="utf-8")
        assert "eval(" not in text, each.name
        assert "new Function" not in text, each.name


async def test_htmx_comes_with_its_extension_before_it_begins(browser: Browser) -> None:
    """A deferred htmx begins by itself, at once: where its extension came later, nothing was live."""
    for path in ("/console/acls", "/console/history"):
        elements = (await browser.go(path)).elements
        scripts = [each for tag, each in elements if tag == "script"]
        assert [each["src"].rpartition("/")[2] for each in scripts] == ["htmx.min.js", "hx-sse.min.js", "console.js"]
        assert all(each.keys() == {"src"} for each in scripts), "neither deferred nor asynchronous"
        assert [tag for tag, _ in elements].index("script") > [tag for tag, _ in elements].index("footer")
