"""Build docs/ as a site: `python .ci/build_docs.py [FOLDER]` (build/site).

Pages and pictures are staged in build/docs with the reference that is made from the code; MkDocs builds the site, and
every link of it is looked at. Ends with 0, with 1 if something is wrong, with 3 if MkDocs can't be had here.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from deploy_tools import ROOT, NotToBeHad, python_tools

sys.path.insert(0, str(ROOT))
LOCK = ROOT / ".ci" / "docs-tools.lock"
STAGE = ROOT / "build" / "docs"
BUILD_TIMEOUT_S = 300
# Pages from outside docs/, by their place in the site.
PAGES = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "SECURITY.md": "security.md"}
PAGES |= {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_ITEM = re.compile(r"(?:-|\d+\.) ")


def _place(path: str) -> str | None:
    """Where a file of the repository is in the site; None if it is not there."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}" if (ROOT / path).is_file() else None


def _linked(text: str, source: str) -> tuple[str, set[str]]:
    """The page with its links as the site has them, and the files besides pages that they lead to."""
    here = PurePosixPath(_place(source) or source).parent
    files: set[str] = set()

    def moved(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return link[0]
        whole = os.path.normpath(PurePosixPath(source).parent / path)
        place = _place(whole)
        if place is None:
            return words
        if place.startswith("files/"):
            files.add(whole)
        to = os.path.relpath(place, here)
        return f"{mark}[{words}]({to}{'#' + anchor if anchor else ''})"

    return _LINK.sub(moved, text), files


def _indented(text: str) -> str:
    """What belongs to an item of a list begins with four blanks: Python-Markdown wants so many, GitHub two or three."""
    lines, within = [], 0
    for line in text.split("\n"):
        if found := _ITEM.match(line):
            within = len(found[0])
        elif line and not line.startswith(" "):
            within = 0
        lines.append(" " * (4 - within) + line if within and line.startswith(" " * within) else line)
    return "\n".join(lines)


def stage() -> None:
    """Everything that MkDocs reads, in build/docs."""
    import docs_reference  # noqa: PLC0415 - loads the application

    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE)
    files: set[str] = set()
    for source in [*PAGES, *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]:
        text, more = _linked((ROOT / source).read_text(encoding="utf-8"), source)
        files |= more
        place = STAGE / (_place(source) or source)
        place.write_text(_indented(text), encoding="utf-8")
    for file in sorted(files):
        place = STAGE / "files" / file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, place)
    docs_reference.write(STAGE / "reference", ROOT)


class _Page(HTMLParser):
    """What a page links to, what it loads, and the ids that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in {"script", "img", "source", "iframe", "link"}:
            self.loads += [given[name] for name in ("src", "href") if name in given]


def faults(site: Path) -> list[str]:
    """Links that lead nowhere, and whatever a page would load from elsewhere."""
    pages = {path.relative_to(site).as_posix(): _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for name, page in pages.items():
        for target in page.loads + page.links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loads and parts.scheme != "data":
                    found.append(f"{name}: loads {target} from elsewhere")
                continue
            if name == "404.html" or parts.path.startswith("/"):
                # Its addresses begin at the root of the site, wherever that will be.
                continue
            whole = os.path.normpath(PurePosixPath(name).parent / unquote(parts.path)) if parts.path else name
            whole = "index.html" if whole == "." else whole
            if not (site / whole).is_file():
                found.append(f"{name}: {target} leads nowhere")
            elif parts.fragment and whole in pages and unquote(parts.fragment) not in pages[whole].ids:
                found.append(f"{name}: {target} has no such place")
    return found


def main() -> int:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()
    try:
        tools = python_tools(LOCK)
    except NotToBeHad as why:
        print(f"docs: NOT BUILT: {why}")
        return 3
    stage()
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--site-dir", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(tools), "NO_MKDOCS_2_WARNING": "1"},
    )
    found = [f"{done.stdout}{done.stderr}".strip()] if done.returncode else faults(site)
    for each in found:
        print(f"docs: {each}")
    if not found:
        print(f"docs: built in {site}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
