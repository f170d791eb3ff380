"""What jobs refuse by their arguments alone: in one line, with the flag, and before Spark is started."""

import re
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.pipeline import job
    from app.pipeline.spark.java import Java

    def started(_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(job, "spark_session", started)
    monkeypatch.setattr(job, "find_java", lambda _: Java("17.0.1", "this test"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("who topic:orders", r"`who` is not a job; run `klamm who`, which also answers as of a past time \(--at\)"),
        ("what User:alice --output json", "`what` is not a job; run `klamm what`"),
        ("effective --offset -3", "--offset: expected"),
        ("propose --principal alice", "--principal: .*such as `User:alice`"),
        ("propose --principal User:\udcff", r"--principal: `User:\\udcff` is not UTF-8"),
        ("effective --resources \udcff.txt", "--resources: .*not UTF-8"),
        ("snapshot --keep 0", "--keep: expected a whole number from 1 to 2,147,483,647, not `0`"),
        ("snapshot --time 2026-11-22T12:00:00+0100", r"is not a time; write 2026-11-22T12:00:00\+01:00"),
        ("snapshot --time yesterday", "--time: `yesterday` is not a time"),
        ("snapshot --time 2026-11-22T12:00:00", "is not a time; write date, time and offset from UTC"),
        ("effective --since noon", "--since: `noon` is not a time"),
        ("ingest --decisions a*b", "--decisions: Spark reads `\\*`"),
        ("hygiene --days 0", "--days: expected a whole number from 1 to 36,500, not `0`"),
        ("what-if --create x --name ../x", "--name: `../x` can't be a folder's name"),
        ("what-if --create x --until noon", "--until: `noon` is not a time"),
        ("export --ranges 0", "--ranges: expected a whole number from 1 to"),
        ("exprot", r"JOB: `exprot` is not one of export, .*; did you mean export\?"),
        ("hygiene --nights 3", "there is no `--nights`"),
        ("hygiene --dyas 3", r"there is no `--dyas`; did you mean --days\?"),
    ],
)
def test_arguments_are_refused_in_one_line(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    from app.pipeline.job import main

    with pytest.raises(SystemExit) as ended:
        main(arguments.split())

    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert re.search(said, lines[0])
    assert lines[0].endswith(" --help")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to try; name the change's files with --create and --delete"),
        (["--create", "missing.json"], "missing.json"),
    ],
)
def test_a_change_is_read_before_spark_is_started(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.pipeline.job import main

    monkeypatch.chdir(tmp_path)

    assert main(["what-if", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_time_for_a_log_that_is_not_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from app.pipeline.job import main

    manifest = tmp_path / "snapshots" / "offset=00000000000000000001" / "manifest"
    manifest.mkdir(parents=True)
    (manifest / "part-00000.txt").write_text("{}")
    listed = tmp_path / "names.txt"
    listed.write_text("orders\n")
    asked = ["effective", "--home", str(tmp_path), "--resources", str(listed), "--since", "2026-11-22T12:00:00Z"]

    assert main(asked) == 2
    assert "--since applies to the decision log" in capsys.readouterr().err
    main([*asked, "--seen"])
    assert "Spark was started" in capsys.readouterr().err


def test_every_kind_of_finding_is_shown() -> None:
    from app.pipeline.jobs.hygiene import _shares

    assert _shares({"VOID": 0, "REDUNDANT": 9_000, "UNUSED": 300, "DETACHED": 2}, 20) == {
        "REDUNDANT": 9,
        "UNUSED": 9,
        "DETACHED": 2,
    }
    assert _shares({"VOID": 1, "UNUSED": 2}, 20) == {"VOID": 1, "UNUSED": 2}
    assert _shares({"VOID": 5, "UNUSED": 5}, 0) == {}
