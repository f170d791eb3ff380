"""What the commands that run on settings say to whoever types them."""

import asyncio
import io
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import import_acls
from app.cli.entry_point import main
from app.cli.example import Example
from app.cli.serving import _check, _started
from app.core.kafka.errors import InconsistentClusterIdException
from app.process.sockets import listening
from app.settings.model import read_settings
from app.store.embedded.server import EmbeddedPostgres
from tests.client_runs import Terminal
from tests.surroundings import of_a_command

DSN = "postgresql://klamm:planted-secret@127.0.0.1:1/acls"
PLACE = "database `127.0.0.1:1/acls`, user `klamm`"


@pytest.fixture(autouse=True)
def clean_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable of ours, a working folder of its own; logs and signals as they were before."""
    with of_a_command(monkeypatch, tmp_path):
        yield


def _told(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line for the operator."""
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "planted" not in text
    return text.partition(": ")[2].rstrip("\n")


def test_a_database_that_is_not_there_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", DSN)
    assert main(["migrate"]) == 1
    assert _told(capsys) == (
        f"{PLACE}: nothing listens on the host and port of `database.url`; start PostgreSQL, or correct them"
    )


def test_a_host_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", "postgresql://klamm:planted-secret@nowhere.invalid/acls")
    assert main(["migrate"]) == 1
    assert _told(capsys).startswith(
        "database `nowhere.invalid:5432/acls`, user `klamm`: the host name of `database.url` "
    )


def test_an_import_names_the_database_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", DSN)

    def refuse(*_: object) -> str:
        raise InconsistentClusterIdException("another cluster's")

    monkeypatch.setattr(import_acls, "run_import", refuse)
    assert main(["import", "acls.jsonl"]) == 1
    assert _told(capsys) == f"{PLACE}: another cluster's"


def test_an_embedded_database_has_no_name_to_tell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> str:
        raise InconsistentClusterIdException("another cluster's")

    monkeypatch.setattr(import_acls, "run_import", refuse)
    assert main(["import", "acls.jsonl"]) == 1
    assert _told(capsys) == "another cluster's"


def test_a_setting_that_can_not_be_used_is_named_as_it_was_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--host", "0.0.0.0"]) == 2  # noqa: S104 - it is refused
    assert _told(capsys).startswith("--host: `0.0.0.0` can be reached from other machines")
    monkeypatch.setenv("KLAMM_HOST", "nowhere.invalid")
    assert main(["serve"]) == 2
    assert _told(capsys).startswith("KLAMM_HOST: `nowhere.invalid` can't be resolved (")
    monkeypatch.delenv("KLAMM_HOST")
    Path("klamm.toml").write_text('tls.certificate = "none"\ntls.key = "none"')
    assert main(["serve"]) == 2
    assert _told(capsys).startswith("`klamm.toml`: tls.certificate: `none` can't be read")


@pytest.mark.parametrize("command", ["serve", "migrate", "import"])
def test_help_tells_settings_and_exit_codes_within_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for told in ("KLAMM_DATABASE_URL", "klamm.toml", "Exit codes:\n\n  0 ", "\n  1 ", "\n  2 "):
        assert told in text


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_is_told_where_it_serves_in_one_line(
    is_terminal: bool,  # noqa: FBT001 - a test's parameter
) -> None:
    screen = Terminal() if is_terminal else io.StringIO()
    with listening("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        settings = read_settings().model_copy(update={"tls_certificate": Path("tls.crt")})
        asyncio.run(_started(settings, listener, None, screen))
    lines = [f"Klamm serves at https://127.0.0.1:{port}; Ctrl-C ends it."] if is_terminal else []
    assert [line[: len(lines[0])] for line in screen.getvalue().splitlines()] == lines


def test_an_example_ends_with_where_it_serves_and_how_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()

    async def shown(_example: Example, address: str, write: object) -> None:
        assert callable(write)
        write(f"asked {address}")

    monkeypatch.setattr("app.cli.example.show_example", shown)
    with listening("127.0.0.1", 0) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        asyncio.run(_started(read_settings(), listener, Example({}, []), screen))
    asked, blank, greeting = screen.getvalue().splitlines()
    assert (asked, blank) == (f"asked {address}", "")
    assert greeting.startswith(f"Klamm serves at {address}; Ctrl-C ends it. ")
    assert "README.md" in greeting


def test_a_port_in_use_is_told_by_what_chooses_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(EmbeddedPostgres, "start", lambda _: pytest.fail("it is started for nothing"))
    monkeypatch.setenv("KLAMM_DATABASE_URL", DSN)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert main(["serve", "--port", str(other.getsockname()[1])]) == 2
    assert "--host and --port (KLAMM_HOST, KLAMM_PORT)" in _told(capsys)
    assert list(tmp_path.iterdir()) == []


def test_super_users_with_the_wrong_sign_between_them_are_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KLAMM_SUPER_USERS", "User:a,User:b;user:c;User:CN=d,O=e")
    _check(read_settings())
    assert [record.msg for record in caplog.records] == ["super_user_in_doubt"] * 2
    first, second = (str(vars(record)["why"]) for record in caplog.records)
    assert "`User:a,User:b` is a single principal" in first
    assert "separate the principals of super.users with `;`" in first
    assert "`user:c` is not `User:c`" in second
