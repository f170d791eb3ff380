"""Commands with closed streams, readers that go, full disks and odd locales."""

import os
import pty
import subprocess
import sys

import pytest

from tests.scripted_server import ScriptedServer, reply

_KLAMM = [sys.executable, "-c", "import sys; from app.cli.entry_point import main; sys.exit(main())"]


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [
        ("<&-", ["plan", "-", "--as", "User:admin"], 2),
        (">&-", ["acls", "--help"], 0),
        ("2>&-", ["plan", "x.csv"], 2),
        ("> /dev/full", ["openapi"], 2),
    ],
)
def test_closed_streams_and_full_disks_bring_no_stack(closed: str, arguments: list[str], code: int) -> None:
    command = " ".join([*(f"'{each}'" for each in [*_KLAMM, *arguments]), closed])
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)

    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stderr


def test_a_reader_that_goes_ends_it_without_a_word() -> None:
    command = " ".join(f"'{each}'" for each in [*_KLAMM, "acls", "--help"])
    done = subprocess.run(
        ["/bin/sh", "-c", f"({command}; echo $? >&2) | true"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr.strip() in {"0", "141"}


ODD = {"resource_name": "\u540d\xfc", "pattern_type": "LITERAL", "principal": "User:\xfc", "host": "*"}


ODD |= {"resource_type": "TOPIC", "operation": "READ", "permission_type": "ALLOW"}


LISTED = reply(acls=[{"id": "00000000-0000-0000-0000-000000000001", **ODD}], token="t:1", next_cursor=None)


LATIN_1 = {**os.environ, "PYTHONIOENCODING": "latin-1"}


@pytest.mark.parametrize(
    "arguments", [["export", "--format", "csv"], ["acls", "--list"], ["acls", "--list", "--output", "yaml"]]
)
def test_pipes_get_utf_8_whatever_the_locale(arguments: list[str]) -> None:
    with ScriptedServer(LISTED) as server:
        command = [*_KLAMM, *arguments, "--klamm", server.url, "--as", "User:admin"]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False, env=LATIN_1)
    assert done.returncode == 0, done.stderr
    assert "\u540d\xfc" in done.stdout.decode()


def test_a_terminal_that_can_not_show_a_name_gets_an_escape() -> None:
    terminal, other_end = pty.openpty()
    with ScriptedServer(LISTED) as server:
        command = [*_KLAMM, "acls", "--list", "--klamm", server.url, "--as", "User:admin"]
        done = subprocess.run(
            command, stdout=other_end, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60, check=False,
            env=LATIN_1,
        )  # fmt: skip
    os.close(other_end)
    shown = os.read(terminal, 10_000)
    os.close(terminal)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"name=\\u540d\xfc," in shown
