"""Commands that speak to a service: wrong addresses, an output that can't be written, words in another encoding."""

import errno

import pytest

from app.cli import entry_point
from app.cli.entry_point import main


@pytest.mark.parametrize("port", ["0", "65536", "73616"])
def test_a_port_that_is_none_is_refused_and_not_dialled_modulo(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "x.csv", "--as", "User:admin", "--klamm", f"http://127.0.0.1:{port}"]) == 2
    assert f"--klamm: {port} is not a port" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "code"), [("pipeline", 3), ("export", 1)])
def test_an_output_that_can_not_be_written_is_no_find(
    name: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(entry_point, "load", lambda _command, _words: run)
    assert main([name]) == code
    assert capsys.readouterr().err == f"klamm {name}: standard output can't be written (No space left on device)\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["why", "User:\udcff", "READ", "topic:x", "--host", "10.0.0.1", "--as", "User:a"],
        ["why", "User:a", "READ", "topic:\udcff", "--host", "10.0.0.1", "--as", "User:a"],
        ["export", "--topic", "\udcff", "--as", "User:a"],
        ["export", "--as", "User:\udcff"],
    ],
)
def test_words_in_another_encoding_are_told_before_anybody_is_asked(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "is not UTF-8; type it in a terminal with a UTF-8 locale" in capsys.readouterr().err
