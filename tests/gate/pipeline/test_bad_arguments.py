"""Slips on the command line that once came to light after Spark had started, or in the middle of the night."""

import json
import re
from pathlib import Path

import pytest

from app.pipeline.spark.java import Java

_DATABASE = "--jdbc-url=jdbc:postgresql://127.0.0.1:1/klamm"
_HUGE = "99999999999999999999"


class Started(BaseException):
    """Spark would have been started."""


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from app.pipeline import job

    def started(_: object) -> None:
        raise Started

    monkeypatch.setattr(job, "spark_session", started)
    monkeypatch.setattr(job, "find_java", lambda _: Java("21.0.1", "PATH"))
    monkeypatch.chdir(tmp_path)
    for name in ("SPARK_REMOTE", "HADOOP_CONF_DIR", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    acl = {"resource_type": "TOPIC", "resource_name": "a", "principal": "User:a", "operation": "READ"}
    (tmp_path / "new.json").write_text(json.dumps({"bindings": [{**acl, "permission_type": "ALLOW"}]}))
    for room in ("snapshots/offset=00000000000000000007", "effective/offset=00000000000000000007"):
        _written(tmp_path / ".klamm" / "pipeline" / room / "manifest")
    _written(tmp_path / ".klamm" / "pipeline" / "decisions" / "manifests" / "batch=0")


def _written(folder: Path) -> None:
    """A document, as far as that can be seen without Spark."""
    folder.mkdir(parents=True)
    (folder / "part-00000.txt").write_text("{}\n")


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["nightly", _DATABASE, "--days=abc"], "--days"),
        (["nightly", _DATABASE, "--min-days=-1"], "--min-days"),
        (["nightly", _DATABASE, "--days=7"], "--min-days"),
        (["nightly", _DATABASE, "--home=s3a://b/home"], "--output"),
        (["hygiene", "--days=7"], "--min-days"),
        (["hygiene", "--tool=rpk"], "--tool"),
        (["report", "--home=s3a://b/home"], "--output"),
        (["what-if", "--create=new.json", "--format=xls"], "--format"),
        (["nightly", _DATABASE, "--decisions=a*"], "--decisions"),
        (["nightly", _DATABASE, "--resources=list.xlsx"], "--resources"),
        (["nightly", _DATABASE, "--output=folder"], "--output"),
        (["nightly", _DATABASE, "--teams=missing.csv"], "--teams"),
        (["hygiene", "--buckets=0"], "--buckets"),
        (["hygiene", "--buckets=-1"], "--buckets"),
        (["what-if", "--create=new.json", f"--buckets={_HUGE}"], "--buckets"),
        (["what-if", "--create=new.json", f"--top={_HUGE}"], "--top"),
        (["snapshot", f"--offset={_HUGE}"], "--offset"),
        (["snapshot", f"--offset={'9' * 5000}"], "--offset"),
        (["export", _DATABASE, f"--ranges={_HUGE}"], "--ranges"),
        (["snapshot", "--time=0001-01-01T00:00:00+23:59"], "--time"),
        (["what-if", "--create=new.json", "--until=9999-12-31T23:59:59-23:59"], "--until"),
        (["what-if", "--create=new.json", "--since=2026-11-02T00:00:00Z", "--until=2026-11-01T00:00:00Z"], "--since"),
        (["what-if", "--create=missing.json"], "--create"),
        (["what-if", "--delete=file"], "--delete"),
        (["what-if", "--delete="], "--delete"),
        (["what-if", "--create=a\nb"], "--create"),
        (["what-if", "--create=new.json", "--csv=folder"], "--csv"),
        (["hygiene", "--csv=missing/found.csv"], "--csv"),
        (["hygiene", "--script=file/mend.sh"], "--script"),
        (["hygiene", "--resources=missing.csv"], "--resources"),
        (["effective", "--resources=file"], None),
        (["effective", "--resources=list.xlsx"], "--resources"),
        (["ingest", "--decisions="], "--decisions"),
        (["ingest", "--decisions=missing"], "--decisions"),
        (["ingest", "--decisions=file"], "--decisions"),
        (["report", "--what-if=../x"], "--what-if"),
        (["report", "--teams=missing.csv"], "--teams"),
        (["report", "--output=/dev/null"], "--output"),
        (["report", "--metrics-file=/dev/null"], "--metrics-file"),
        (["report", "--metrics-file=missing/k.prom"], "--metrics-file"),
        (["report", f"--metrics-file={'x' * 300}"], "--metrics-file"),
        (["report", "--home="], "--home"),
        (["report", "--home=file/home"], "--home"),
        (["report", "--home=file"], "--home"),
        (["report", "--master=x"], "--master"),
        (["report", "--master=local[0]"], "--master"),
        (["report", "--master="], "--master"),
        (["report", "--remote=sc://h"], "--remote"),
        (["report", "--conf=spark.=1"], "--conf"),
        (["report", "--jdbc-url=jdbc:mysql://h/x"], "--jdbc-url"),
        (["export", "--jdbc-url=jdbc:postgresql://h:99999999/x"], "--jdbc-url"),
        (["export", "--jdbc-url=jdbc:postgresql://h:0/x"], "--jdbc-url"),
        (["snapshot", "--from-table"], "--data-dir|--jdbc-url"),
    ],
)
def test_a_slip_is_told_in_one_line_with_its_flag_before_spark_is_started(
    arguments: list[str], flag: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.pipeline.job import main

    if flag is None:
        # A folder of Parquet may have any name.
        with pytest.raises(Started):
            main(arguments)
        return
    try:
        status: object = main(arguments)
    except SystemExit as ended:
        status = ended.code

    said = capsys.readouterr().err.splitlines()
    assert (status, len(said)) == (2, 1), said
    assert re.search(rf"(?:{flag})\b", said[0])


def test_what_may_be_on_another_file_system_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.pipeline.job import main

    asked = ["hygiene", "--resources=missing.csv"]
    for more in (["--conf=spark.hadoop.fs.defaultFS=hdfs://h"], ["--master=spark://h:7077"]):
        with pytest.raises(Started):
            main([*asked, *more])
    for path in ("s3a://b/list.csv", "file:/missing/list.csv", "lists/*.csv"):
        with pytest.raises(Started):
            main(["hygiene", f"--resources={path}"])
    monkeypatch.setenv("HADOOP_CONF_DIR", "x")
    with pytest.raises(Started):
        main([*asked, "--home=file/home"])


def test_files_that_can_be_written_are(capsys: pytest.CaptureFixture[str]) -> None:
    from app.pipeline.job import main

    with pytest.raises(Started):
        main(["hygiene", "--csv=/dev/stdout", "--script=folder/mend.sh", "--metrics-file=k.prom"])
    with pytest.raises(Started):
        main(["ingest", "--decisions=folder", "--home=new/home"])
    assert [path.name for path in Path("new/home").iterdir()] == [".lock"]
    assert "can't" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hygiene"], "there is no snapshot in `none`; run `klamm pipeline snapshot`"),
        (["effective"], "there is no snapshot"),
        (["report"], "there is no snapshot"),
        (["what-if", "--create=new.json"], "there is no snapshot"),
        (["reconcile", _DATABASE], "nothing has been exported into `none` yet; run `klamm pipeline export`"),
        (["snapshot"], "nothing has been exported into `none` yet; run `klamm pipeline export`"),
        (["report", "--home=.klamm/pipeline", "--offset=8"], "no snapshot at offset 8 (the latest are at 7)"),
        (["report", "--home=part"], "effective has not been run at offset 5; run `klamm pipeline effective`"),
        (["what-if", "--create=new.json", "--home=part"], "`part` holds no decisions; run `klamm pipeline ingest"),
        (["effective", "--home=part"], "or list the resources with --resources FILE"),
    ],
)
def test_what_was_never_made_is_told_before_spark_is_started(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.pipeline.job import main

    _written(Path("part") / "snapshots" / "offset=00000000000000000005" / "manifest")
    # Killed half-way: there are ACLs, and no manifest that speaks of them.
    (Path("none") / "snapshots" / "offset=00000000000000000009" / "acls").mkdir(parents=True)
    asked = arguments if any(each.startswith("--home") for each in arguments) else [*arguments, "--home=none"]
    assert main(asked) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.parametrize("arguments", [["export"], ["nightly"], ["snapshot", "--from-table"], ["reconcile"]])
def test_a_database_that_does_not_answer_is_told_before_spark_is_started(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from app.pipeline.job import main

    _written(Path(".klamm/pipeline/export/manifests/batch=1"))
    assert main([*arguments, _DATABASE]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "PostgreSQL can't be reached" in line


def test_what_is_there_is_left_to_spark() -> None:
    from app.pipeline.job import main

    for arguments in (["report"], ["what-if", "--create=new.json"], ["effective"], ["hygiene"]):
        with pytest.raises(Started):
            main(arguments)
    with pytest.raises(Started):
        main(["hygiene", "--home=none", "--master=yarn"])
