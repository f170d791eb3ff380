"""Files that hold no events, or broken ones: `klamm verify` says so in one line, whatever they are."""

from pathlib import Path

import pytest

from app.cli.entry_point import main


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"type": "snap', "line 1 is not an event"),
        (b'{"a": ' + b"[" * 100_000, "line 1 is not an event"),
        (b'{"a": ' + b"9" * 5_000, "line 1 is not an event"),
        (b"\xff\xfea\n", "line 1 is not an event"),
        (b"a: b\n- c\n", "line 1 is not an event"),
        (b"# nothing\n", "line 1 is not an event"),
        (b"", "holds no events"),
        (b"apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\n", "is in the format strimzi, which has no ids"),
    ],
)
def test_what_holds_no_events_is_told(
    tmp_path: Path, content: bytes, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "events"
    path.write_bytes(content)
    assert main(["verify", str(path)]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
