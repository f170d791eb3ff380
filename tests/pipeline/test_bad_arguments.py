"""Slips on the command line that once came to light after Spark had started, or in the middle of the night."""

import json
import re
from pathlib import Path

import pytest

from app.pipeline import job
from app.pipeline.job import main

_DATABASE = "--jdbc-url=jdbc:postgresql://127.0.0.1:1/klamm"
_HUGE = "99999999999999999999"


class Started(BaseException):
    """Spark would have been started."""


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def started(_: object) -> None:
        raise Started

    monkeypatch.setattr(job, "spark_session", started)
    monkeypatch.chdir(tmp_path)
    for name in ("SPARK_REMOTE", "HADOOP_CONF_DIR", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    acl = {"resource_type": "TOPIC", "resource_name": "a", "principal": "User:a", "operation": "READ"}
    (tmp_path / "new.json").write_text(json.dumps({"bindings": [{**acl, "permission_type": "ALLOW"}]}))


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["nightly", _DATABASE, "--days=abc"], "--days"),
        (["nightly", _DATABASE, "--grace-days=-1"], "--grace-days"),
        (["nightly", _DATABASE, "--decisions=a*"], "--decisions"),
        (["nightly", _DATABASE, "--resources=list.xlsx"], "--resources"),
        (["nightly", _DATABASE, "--output=folder"], "--output"),
        (["nightly", _DATABASE, "--teams=missing.csv"], "--teams"),
        (["hygiene", "--buckets=0"], "--buckets"),
        (["hygiene", "--buckets=-1"], "--buckets"),
        (["what-if", "--create=new.json", f"--buckets={_HUGE}"], "--buckets"),
        (["what-if", "--create=new.json", f"--top={_HUGE}"], "--top"),
        (["what", "User:a", f"--limit={_HUGE}"], "--limit"),
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
        (["who", "topic:a", "--home=file"], "--home"),
        (["report", "--master=x"], "--master"),
        (["report", "--master=local[0]"], "--master"),
        (["report", "--master="], "--master"),
        (["report", "--remote=sc://"], "--remote"),
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
    asked = ["hygiene", "--resources=missing.csv"]
    for more in (["--conf=spark.hadoop.fs.defaultFS=hdfs://h"], ["--master=spark://h:7077"], ["--remote=sc://h"]):
        with pytest.raises(Started):
            main([*asked, *more])
    for path in ("s3a://b/list.csv", "file:/missing/list.csv", "lists/*.csv"):
        with pytest.raises(Started):
            main(["hygiene", f"--resources={path}"])
    monkeypatch.setenv("HADOOP_CONF_DIR", "x")
    with pytest.raises(Started):
        main([*asked, "--home=file/home"])


def test_files_that_can_be_written_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Started):
        main(["hygiene", "--csv=/dev/stdout", "--script=folder/mend.sh", "--metrics-file=k.prom", "--home=new/home"])
    assert not Path("new").exists()
    assert "can't" not in capsys.readouterr().err
