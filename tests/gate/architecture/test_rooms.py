"""The shape of the code: rooms with signs, files and functions that fit a head."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
APP = ROOT / "app"
ROOMS = tuple(sorted(str(path.parent.relative_to(APP)) for path in APP.glob("*/**/__init__.py")))
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PAGE_COLUMNS = 120
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "manager"}


def _sources() -> list[Path]:
    return sorted(APP.rglob("*.py"))


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_each_room_has_a_sign_that_says_what_it_answers_imports_and_who_calls_it(subtests: pytest.Subtests) -> None:
    for room in ROOMS:
        with subtests.test(room=room):
            sign = ast.get_docstring(ast.parse((APP / room / "__init__.py").read_text()))
            assert sign is not None
            assert "?" in sign.splitlines()[0]
            assert "import" in sign
            assert "alled by" in sign


def test_no_file_outgrows_its_room() -> None:
    crowded = {p.relative_to(ROOT): n for p in _sources() if (n := len(p.read_text().splitlines())) > MAX_FILE_LINES}
    assert not crowded


def test_every_function_fits_a_screen() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in _sources()
        for node in _functions(ast.parse(path.read_text()))
        if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not long


def test_no_file_is_a_drawer_for_everything() -> None:
    assert not [p for p in _sources() if p.stem in FORBIDDEN_NAMES]


def test_every_silenced_check_says_why() -> None:
    silent = re.compile(r"#\s*(type: ignore\[[\w, -]+\]|noqa: [A-Z0-9, ]+)\s*$", re.MULTILINE)
    bare = [f"{p.relative_to(ROOT)}: {m[0]}" for p in _sources() for m in silent.finditer(p.read_text())]
    assert not bare


def test_architecture_page_is_short_and_names_only_files_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(text.splitlines()) <= 120
    for name in re.findall(
        r"`((?:core|formats|store|runtime|rest|settings|logs|metrics|process|client|pipeline|cli)/[a-z_/]+)", text
    ):
        assert (APP / f"{name}.py").exists() or (APP / name).is_dir(), name


def test_the_project_names_no_registry_and_no_path_of_a_machine() -> None:
    telltale = re.compile(r"(?:files\.pythonhosted|registry\.npmjs|repo1?\.maven|proxy\.golang)\S*|/(?:root|work)/\S*")
    for path in (ROOT / "README.md", ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / ".ci" / "run"):
        assert not telltale.search(path.read_text()), path


def test_licence_and_version_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_lines_of_pages_fit_a_screen() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    wide = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in pages
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        # A row of a table and a command are one line.
        if len(line) > MAX_PAGE_COLUMNS and not line.startswith(("|", "    ")) and line.count(" ") > 1
    ]
    assert not wide
