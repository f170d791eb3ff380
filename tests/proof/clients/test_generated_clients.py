"""The clients as their users have them: stories against a live service, and answers of a service from the future."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.clients.kept import cache
from tests.klamm import ROOT, Process
from tests.proof.clients.conftest import ClientOf
from tests.proof.clients.newer_service import UNDERSTOOD
from tests.proof.clients.programs_run import PATIENCE_S, PROGRAMS, compiled_typescript, go, java, python, said


@pytest.fixture(scope="module")
def typescript_programs(client_of: ClientOf, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The TypeScript programs, compiled with all strictness."""
    folder = tmp_path_factory.mktemp("typescript")
    return compiled_typescript(client_of("typescript"), folder, PROGRAMS / "typescript")


def test_the_python_client_tells_a_whole_story(
    client_of: ClientOf, service: Process, without_store: Process, tmp_path: Path
) -> None:
    story = PROGRAMS / "python" / "story.py"
    assert python(client_of("python"), tmp_path, story, service.url, without_store.url) == "all right\n"


def test_the_typescript_client_tells_a_whole_story(
    typescript_programs: Path, service: Process, without_store: Process, tmp_path: Path
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
    misspelt = tmp_path / "misspelt.py"
    misspelt.write_text('from klamm_client.models import Action\n\nAction("REED", "TOPIC", "orders")\n')
    surroundings = {**os.environ, "MYPYPATH": searched}
    command = [*map(str, checker), str(misspelt)]
    done = subprocess.run(
        command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1, done.stdout
    assert "incompatible type" in done.stdout
    assert "REED" in done.stdout


def test_a_word_is_a_string_to_the_python_client(client_of: ClientOf, tmp_path: Path) -> None:
    program = tmp_path / "words.py"
    program.write_text(
        "from klamm_client.models import Action\n"
        "from klamm_client.models.acl_operation import check_acl_operation\n"
        'action = Action(operation="READ", resource_type="TOPIC", resource_name="orders")\n'
        "sent = action.to_dict()\n"
        'print(sent["operation"], sent["resource_type"], Action.from_dict(sent) == action)\n'
        "for word in ('READ', 'REED', [], None):\n"
        "    try:\n"
        "        print(check_acl_operation(word))\n"
        "    except ValueError as refused:\n"
        "        print(str(refused).partition(' of ')[0])\n"
    )
    said_words = python(client_of("python"), tmp_path, program).splitlines()
    assert said_words == ["READ TOPIC True", "READ", "'REED' is none", "[] is none", "None is none"]
