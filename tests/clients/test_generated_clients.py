"""The clients as their users have them: stories against a live service, and answers of a service from the future."""

import os
import re
import sys
from pathlib import Path

import pytest

from deploy.clients.kept import cache
from tests.clients.conftest import ClientOf
from tests.clients.newer_service import UNDERSTOOD
from tests.clients.programs_run import PROGRAMS, compiled_typescript, go, java, python, said
from tests.e2e.service import ROOT, Service


@pytest.fixture(scope="module")
def typescript_programs(client_of: ClientOf, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The TypeScript programs, compiled with all strictness."""
    folder = tmp_path_factory.mktemp("typescript")
    return compiled_typescript(client_of("typescript"), folder, PROGRAMS / "typescript")


def test_the_python_client_tells_a_whole_story(
    client_of: ClientOf, service: Service, without_store: Service, tmp_path: Path
) -> None:
    story = PROGRAMS / "python" / "story.py"
    assert python(client_of("python"), tmp_path, story, service.url, without_store.url) == "all right\n"


def test_the_typescript_client_tells_a_whole_story(
    typescript_programs: Path, service: Service, without_store: Service, tmp_path: Path
) -> None:
    story = typescript_programs / "story.js"
    assert said(["node", story, service.url, without_store.url], tmp_path) == "all right\n"


def test_words_and_fields_from_the_future_do_not_break_the_java_client(
    client_of: ClientOf, future: str, tmp_path: Path
) -> None:
    assert java(client_of("java"), tmp_path, PROGRAMS / "java" / "Future.java", future) == UNDERSTOOD


def test_words_and_fields_from_the_future_do_not_break_the_go_client(
    client_of: ClientOf, future: str, tmp_path: Path
) -> None:
    assert go(client_of("go"), tmp_path, PROGRAMS / "go" / "main.go", future) == UNDERSTOOD


def test_words_and_fields_from_the_future_do_not_break_the_typescript_client(
    typescript_programs: Path, future: str, tmp_path: Path
) -> None:
    assert said(["node", typescript_programs / "future.js", future], tmp_path) == UNDERSTOOD


def test_the_python_client_never_takes_a_verdict_from_the_future_for_an_allowed(
    client_of: ClientOf, future: str, tmp_path: Path
) -> None:
    program = PROGRAMS / "python" / "future.py"
    understood = re.sub(r"^(allowed|allowed anywhere|explained):.*$", r"\1: refused", UNDERSTOOD, flags=re.MULTILINE)
    assert python(client_of("python"), tmp_path, program, future) == understood


def test_the_types_of_the_python_client_hold_what_its_users_write(client_of: ClientOf, tmp_path: Path) -> None:
    checker: list[str | Path] = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        cache("mypy"),
    ]
    searched = os.pathsep.join([str(client_of("python")), str(ROOT / "examples" / "sidecar")])
    assert "no issues found" in said([*checker, *(PROGRAMS / "python").glob("*.py")], tmp_path, MYPYPATH=searched)
