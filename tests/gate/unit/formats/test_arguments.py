"""Refusals of a command line: one line, and a question where something was only misspelt."""

import pytest

from app.formats.arguments import CommandParser


def parser() -> CommandParser:
    found = CommandParser(prog="tool")
    commands = found.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve")
    serve.add_argument("--port")
    export = commands.add_parser("export")
    export.add_argument("--host", required=True)
    export.add_argument("--format", choices=("csv", "json"))
    export.add_argument("--type", type=str.upper, choices=("LITERAL", "PREFIXED"))
    return found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("exprot", "tool: COMMAND: `exprot` is not one of serve, export; did you mean export? see tool --help"),
        ("xyz", "tool: COMMAND: `xyz` is not one of serve, export; see tool --help"),
        ("serve --prot 1", "tool serve: there is no `--prot`; did you mean --port? see tool serve --help"),
        ("serve --prot=1", "tool serve: there is no `--prot=1`; did you mean --port? see tool serve --help"),
        ("serve --xyz", "tool serve: there is no `--xyz`; see tool serve --help"),
        ("serve --port 1 2", "tool serve: unexpected argument `2`; see tool serve --help"),
        (
            "export --hots h",
            (
                "tool export: the following arguments are required: --host; `--hots`: did you mean --host? "
                "see tool export --help"
            ),
        ),
        (
            "export --host h --format jsno",
            "tool export: --format: `jsno` is not one of csv, json; did you mean json? see tool export --help",
        ),
        (
            "export --host h --type litral",
            (
                "tool export: --type: `LITRAL` is not one of LITERAL, PREFIXED; did you mean LITERAL? "
                "see tool export --help"
            ),
        ),
    ],
)
def test_what_was_meant_is_asked_in_the_one_line(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{told}\n"


def test_a_word_does_nothing_to_a_terminal_and_makes_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["serve", "--po\x1b[2J\nrt"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


def test_help_is_never_wider_than_a_terminal_of_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    wide = CommandParser(prog="tool", description="word " * 60 + "\n\n  as it is,\n  line by line\n\nkafka-acls " * 20)
    wide.add_argument("--flag", help="what kafka-acls says " * 20)
    with pytest.raises(SystemExit):
        wide.parse_args(["--help"])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 78
    assert "\n\n  as it is,\n  line by line\n\n" in shown
    assert "kafka-\n" not in shown
