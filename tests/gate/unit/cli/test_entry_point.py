import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from app import __version__
from app.cli.commands import COMMANDS, MEANT, Command
from app.cli.entry_point import main
from app.core.kafka.errors import StoreUnavailableException
from app.formats.command_errors import CommandError, UsageError
from app.formats.database_url import DatabaseUrl
from app.rest.openapi import build_openapi
from app.store import migrate as store_migrate
from tests.surroundings import of_a_command

DSN = "postgresql://klamm:planted-secret@127.0.0.1:1/klamm"


@pytest.fixture(autouse=True)
def clean_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable of ours, a working folder of its own; logs and signals as they were before."""
    with of_a_command(monkeypatch, tmp_path):
        yield


class _Migrations:
    """Takes the place of `migrate`; tells what it was asked, and may refuse."""

    def __init__(self, refusal: BaseException | None = None) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self._refusal = refusal

    async def __call__(self, database_url: DatabaseUrl, *, cluster_id: str | None = None) -> None:
        self.asked.append((database_url.dsn, cluster_id))
        if self._refusal is not None:
            raise self._refusal


def _told(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line for the operator."""
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    program, _, line = text.rstrip("\n").partition(": ")
    assert program.split()[0] == "klamm"
    return line


def test_openapi_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["openapi"]) == 0
    assert json.loads(capsys.readouterr().out) == build_openapi()


def test_openapi_goes_to_a_file(tmp_path: Path) -> None:
    assert main(["openapi", "--output", str(tmp_path / "openapi.json")]) == 0
    text = (tmp_path / "openapi.json").read_text()
    assert json.loads(text) == build_openapi()
    assert text.endswith("}\n")


def test_a_file_that_can_not_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "missing" / "openapi.json"
    assert main(["openapi", "--output", str(path)]) == 2
    assert _told(capsys) == f"--output: can't write `{path}` (No such file or directory)"


def test_migrate_works_on_the_given_database(monkeypatch: pytest.MonkeyPatch) -> None:
    migrations = _Migrations()
    monkeypatch.setattr(store_migrate, "migrate", migrations)
    monkeypatch.setenv("KLAMM_DATABASE_URL", DSN)
    monkeypatch.setenv("KLAMM_CLUSTER_ID", "lkc-1")
    assert main(["migrate"]) == 0
    assert migrations.asked == [(DSN, "lkc-1")]


def test_a_database_that_refuses_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(store_migrate, "migrate", _Migrations(StoreUnavailableException("PostgreSQL can't be reached")))
    monkeypatch.setenv("KLAMM_DATABASE_URL", DSN)
    assert main(["migrate"]) == 1
    assert _told(capsys) == "database `127.0.0.1:1/klamm`, user `klamm`: PostgreSQL can't be reached"


def test_a_migration_that_was_interrupted_is_not_taken_for_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_migrate, "migrate", _Migrations(KeyboardInterrupt()))
    monkeypatch.setenv("KLAMM_DATABASE_URL", DSN)
    assert main(["migrate"]) == 130


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_a_bad_setting_is_told_in_one_line(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KLAMM_PROT", "1")
    assert main([command]) == 2
    assert _told(capsys) == "KLAMM_PROT: there is no such variable; did you mean KLAMM_PORT?"


def test_a_bad_flag_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "http"]) == 2
    assert _told(capsys).startswith("--port: ")


@pytest.mark.parametrize("count", ["0", "-1", "65", "x", "", "1.5"])
def test_a_number_of_workers_that_is_none_is_told_in_one_line(
    count: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--workers", count]) == 2
    assert _told(capsys).startswith("--workers: ")
    monkeypatch.setenv("KLAMM_WORKERS", count)
    assert main(["serve"]) == 2
    assert _told(capsys).startswith("KLAMM_WORKERS: ")


def test_a_folder_that_can_not_be_used_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["serve", "--data-dir", str(tmp_path / "file" / "data")]) == 2
    assert _told(capsys).startswith("can't keep data in ")


def test_a_missing_example_is_told_before_anything_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--example", "nowhere.json"]) == 2
    assert _told(capsys) == "--example: can't read `nowhere.json` (No such file or directory)"
    assert list(tmp_path.iterdir()) == []


def test_an_example_needs_a_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--uds", "k.sock", "--example", "acls.json"]) == 2
    assert _told(capsys) == "--example needs host and port; leave out --uds (KLAMM_UDS)"


@pytest.mark.parametrize("arguments", [[], ["serve", "--threads", "2"], ["serve", "now"]])
def test_what_is_no_command_gets_one_line_that_leads_to_help(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("klamm")
    assert line.endswith(" --help")


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("sing", "there is no command `sing`; see klamm --help"),
        ("lits", "there is no command `lits`; did you mean `klamm acls --list`? see klamm --help"),
        ("aplly", "there is no command `aplly`; did you mean `klamm apply`? see klamm --help"),
        ("Serve", "there is no command `Serve`; did you mean `klamm serve`? see klamm --help"),
        ("explain", "there is no command `explain`; did you mean `klamm why`? see klamm --help"),
        ("\x1b[2J\n", "there is no command `\\x1b[2J\\n`; see klamm --help"),
        ("", "there is no command ``; see klamm --help"),
    ],
)
def test_a_misspelt_command_is_asked_about(word: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word, "--flag"]) == 2
    assert _told(capsys) == told


def _commands() -> list[str]:
    return [*COMMANDS]


def test_the_door_knows_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    listed = re.findall(r"^    ([a-z]+) +\S", _help([], capsys), re.MULTILINE)
    assert sorted(listed) == sorted(_commands())
    assert {meant.partition(" ")[0] for meant in MEANT.values()} <= set(_commands())


def _help(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with suppress(SystemExit):  # `klamm acls` is a door of its own
        assert main([*command, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", ["80", "200"])
def test_the_help_of_every_command_fits_a_terminal_of_80_columns(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for command in [[], *([each] for each in _commands())]:
        if command == ["pipeline"]:
            continue  # below
        shown = _help(command, capsys)
        assert shown.startswith(" ".join(["usage: klamm", *command]))
        assert [line for line in shown.splitlines() if len(line) >= 80] == []


def test_the_help_of_every_job_fits_a_terminal_of_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = pytest.importorskip("app.pipeline.jobs", exc_type=ImportError).JOBS
    monkeypatch.setenv("COLUMNS", "80")
    for command in (["pipeline"], *(["pipeline", job.name] for job in jobs)):
        shown = _help(command, capsys)
        assert shown.startswith(" ".join(["usage: klamm", *command]))
        assert [line for line in shown.splitlines() if len(line) >= 80] == []


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"klamm {__version__}\n"


def test_help_is_a_word_as_well_as_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    for words, flags in (
        (["help", "help"], ["--help"]),
        (["help"], ["--help"]),
        (["help", "serve"], ["serve", "--help"]),
        (["help", "why"], ["why", "--help"]),
    ):
        shown = []
        for each in (words, flags):
            with suppress(SystemExit):
                assert main(each) == 0
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1] != ""
    assert main(["help", "srve"]) == 2
    assert _told(capsys) == "there is no command `srve`; did you mean `klamm serve`? see klamm --help"


def test_what_stands_before_the_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--", "migrate"])
    assert ended.value.code == 2
    assert _told(capsys).endswith("; see klamm --help")


def _of_a_module(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[argparse.Namespace, object], int], *, failed: int = 1
) -> list[str]:
    """A command `odd` whose argument refuses `bad` by a UsageError; the words that call it."""

    def checked(text: str) -> str:
        if text == "bad":
            raise UsageError("--since: `bad` is no time")
        return text

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--since", type=checked)

    module = ModuleType("tests.odd_command")
    module.__dict__.update(DESCRIPTION="Odd.", add_arguments=add_arguments, run=run)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "odd", Command("odd", "is odd", module.__name__, failed=failed))
    return ["odd"]


def test_a_refusal_of_an_arguments_type_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*_of_a_module(monkeypatch, lambda *_: 0), "--since", "bad"]) == 2
    assert _told(capsys) == "--since: `bad` is no time"


def test_a_fault_never_ends_with_the_code_of_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> int:
        raise CommandError("the service can't be reached")

    def fall(*_: object) -> int:
        raise ValueError("a fault")

    assert main(_of_a_module(monkeypatch, refuse, failed=3)) == 3
    assert _told(capsys) == "the service can't be reached"
    assert main(_of_a_module(monkeypatch, fall, failed=3)) == 3
    assert "ValueError: a fault" in capsys.readouterr().err
    with pytest.raises(ValueError, match="a fault"):
        main(_of_a_module(monkeypatch, fall))
