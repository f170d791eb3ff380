"""The service's log files become the decision log: each line once, whatever happens, and what is wrong is put aside."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.pipeline.history.decision_lines import MAX_LINE_BYTES
from app.pipeline.history.decision_log import log_window, read_decisions
from app.pipeline.history.log_pieces import finished_batches
from app.pipeline.spark.errors import NoDecisionsError, PipelineError
from tests.proof.pipeline.ingesting import Place, decisions, line_of

_ROOT = Path(__file__).parents[3]
_PATIENCE_S = 600.0
"""Where others work beside it, Spark takes minutes to start."""


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


def test_every_line_is_taken_once_and_comes_back_as_it_was(place: Place) -> None:
    rows = decisions(0, 400)
    rows[7]["time"] = datetime(2026, 11, 1, 23, 59, 59, 999_999, tzinfo=UTC)
    rows[8]["time"] = datetime(2026, 11, 2, tzinfo=UTC)
    rows[9]["principal"] = 'User:\u2028\u0085\r\n\t"\\é😀'
    rows[10]["resource_name"] = " \ue000 "
    rows[11] |= {"security_protocol": "SASL_SSL", "request_version": 17, "correlation_id": -(2**31)}
    lines = [line_of(row) for row in rows[:150]]
    lines[12] = _as_an_earlier_version_wrote_it(lines[12])
    place.write("decisions-1.jsonl", lines)
    place.write("decisions-2.jsonl.gz", [b"\n", *(line_of(row) for row in rows[150:300]), b" \t\r\n"])
    place.write("_decisions-3.jsonl", [line_of(row) for row in rows[300:]])
    place.write("notes.txt", [b"no decision\n"])
    assert place.run("--files-at-once", "1") == 0
    assert place.metrics.counts == {"decisions_written": 300, "lines_quarantined": 0}
    assert len(finished_batches(place.spark, place.home)) == 2
    # Nothing new: nothing happens. The open file is closed, a week before the others by its date: it is taken.
    assert place.run() == 0
    assert place.offsets() == list(range(300))
    (place.log / "_decisions-3.jsonl").rename(place.log / "decisions-3.jsonl")
    long_ago = time.time() - 30 * 24 * 3600
    os.utime(place.log / "decisions-3.jsonl", (long_ago, long_ago))
    assert place.run() == 0
    frame = read_decisions(place.spark, place.home)
    stored = {row["offset"]: row.asDict() for row in frame.withColumn("time", frame["time"].cast("string")).collect()}
    assert len(stored) == len(rows)
    for row in rows:
        found = stored[row["offset"]]
        assert found.pop("day") == row["time"].date()
        kept = datetime.fromisoformat(found.pop("time")).replace(tzinfo=UTC)
        assert (kept, found) == (row["time"], {name: value for name, value in row.items() if name != "time"})
    _windows(place, rows)


def _as_an_earlier_version_wrote_it(line: bytes) -> bytes:
    added = {"security_protocol", "request_version", "correlation_id"}
    fields = {name: value for name, value in json.loads(line).items() if name not in added}
    return json.dumps(fields).encode() + b"\n"


def test_decisions_that_an_earlier_version_ingested_are_read(place: Place) -> None:
    place.write("decisions-1.jsonl", map(line_of, decisions(0, 30)))
    assert place.run() == 0
    # As that version wrote its Parquet.
    for folder in Path(place.home.room("decisions", "log")).glob("day=*/batch=*"):
        frame = place.spark.read.parquet(str(folder)).drop("security_protocol", "request_version", "correlation_id")
        frame.write.parquet(str(folder.with_name("_older")))
        shutil.rmtree(folder)
        folder.with_name("_older").rename(folder)
    place.write("decisions-2.jsonl", map(line_of, decisions(30, 30, correlation_id=7)))
    assert place.run() == 0
    found = read_decisions(place.spark, place.home).select("offset", "correlation_id").collect()
    assert {row["offset"]: row["correlation_id"] for row in found} == {
        offset: None if offset < 30 else 7 for offset in range(60)
    }


def test_what_was_lost_is_named_and_the_oldest_days_may_go(place: Place) -> None:
    rows = decisions(0, 90)
    for number, row in enumerate(rows):
        row["time"] = datetime(2026, 11, 1 + number % 3, 12, tzinfo=UTC)
    place.write("decisions-1.jsonl", map(line_of, rows[:45]))
    place.write("decisions-2.jsonl", map(line_of, rows[45:]))
    assert place.run("--files-at-once", "1") == 0
    log = Path(place.home.room("decisions", "log"))
    first, second = sorted(log.glob("day=2026-11-03/batch=*"))
    # The days before are merged, and what they were merged from is no longer read.
    shutil.rmtree(log / "day=2026-11-02" / first.name)
    assert place.offsets() == list(range(90))
    (merged,) = log.glob("day=2026-11-02/batch=-*")
    for lost, count in ((second, 15), (merged, 30)):
        lost.rename(log.parent / "lost")
        with pytest.raises(PipelineError, match=rf"there are 0 decisions in `.*{lost.name}`, and {count} were"):
            place.offsets()
        (log.parent / "lost").rename(lost)
    shutil.rmtree(log / "day=2026-11-01")
    assert place.offsets() == [number for number in range(90) if number % 3]
    shutil.rmtree(log / "day=2026-11-02")
    assert place.offsets() == list(range(2, 90, 3))
    shutil.rmtree(log / "day=2026-11-03")
    with pytest.raises(NoDecisionsError, match="holds no decisions"):
        place.offsets()


def _windows(place: Place, rows: list[dict[str, Any]]) -> None:
    for since, until in (
        (datetime(2026, 11, 1, 23, 59, 59, 999_999, tzinfo=UTC), None),
        (None, datetime(2026, 11, 1, 2, tzinfo=UTC)),
        (datetime(2026, 11, 1, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)),
    ):
        wanted = [row for row in rows if (not since or row["time"] >= since) and (not until or row["time"] < until)]
        window = log_window(read_decisions(place.spark, place.home, since, until))
        times = sorted(row["time"] for row in wanted)
        assert (window.decisions, window.first_time, window.last_time) == (len(wanted), times[0], times[-1])


def test_bad_lines_are_put_aside_with_their_file_and_column(place: Place) -> None:
    good = decisions(0, 40)
    bad: list[tuple[bytes, str]] = [
        (line_of(good[0])[:50] + b"\n", ""),
        (b"\xff\xfe" + line_of(good[0]), ""),
        (b"plain text\n", ""),
        (b'"' + b"x" * (3 * MAX_LINE_BYTES) + b'"\n', ""),
        (line_of({**good[0], "operation": "EAT"}), "operation"),
        (line_of({**good[0], "time": "yesterday"}), "time"),
        (line_of({**good[0], "acl_id": "5", "result": "DENIED", "rule": "MatchingAcl"}), "acl_id"),
        (line_of({name: value for name, value in good[0].items() if name != "host"}), "host"),
        (line_of(good[0]).replace(b'"offset": 0', b'"offset": 1e400'), "offset"),
    ]
    lines = [*(line_of(row) for row in good), *(line for line, _ in bad)]
    Random(3).shuffle(lines)
    # The last line of a process that died is half-written, without an end.
    place.write("decisions-1.jsonl", [*lines, line_of(good[1])[:-30]])
    assert place.run() == 0
    assert place.offsets() == list(range(40))
    assert sorted(row["column"] for row in place.quarantine()) == sorted([*(column for _, column in bad), ""])
    for row in place.quarantine():
        assert row["file"].endswith("decisions-1.jsonl")
        assert f"`{row['column']}`" in row["reason"] or not row["column"]
        assert len(row["line"]) <= MAX_LINE_BYTES
    assert "40 decisions taken in 1 batch, 10 lines put aside" in place.said.getvalue()
    assert "(line) 5, acl_id 1, host 1, offset 1, operation 1, time 1" in place.said.getvalue()
    place.write("decisions-2.jsonl", [line_of(decisions(40, 1)[0]), b"{\n"])
    assert place.run("--fail-on-quarantine") == 1
    assert place.run("--fail-on-quarantine") == 0
    assert place.offsets() == list(range(41))


def test_what_cannot_be_read_is_named_and_nothing_is_damaged(place: Place) -> None:
    with pytest.raises(PipelineError, match="run `klamm pipeline ingest"):
        read_decisions(place.spark, place.home)
    place.write("decisions-1.jsonl", [line_of(row) for row in decisions(0, 20)])
    with pytest.raises(PipelineError, match=r"there is no folder `.*nowhere`"):
        place.run(folders=[place.log, place.log / "nowhere"])
    place.run()
    whole = gzip.compress(b"".join(line_of(row) for row in decisions(20, 3000)))
    (place.log / "decisions-2.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PipelineError, match=r"decisions-2\.jsonl\.gz.*--skip-unreadable-files"):
        place.run()
    assert place.offsets() == list(range(20))
    (place.log / "decisions-2.jsonl.gz").write_bytes(whole)
    assert place.run() == 0
    assert place.offsets() == list(range(3020))
    for each in (Path(place.home.root) / "decisions" / "files").glob("batch=*"):
        shutil.rmtree(each)
        break
    with pytest.raises(PipelineError, match="it is unknown which files"):
        place.run()


_KILLED = """
import sys
from argparse import Namespace
from app.pipeline.context import JobContext
from app.pipeline.jobs import ingest
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.session import SessionOptions, spark_session
from app.pipeline.spark.storage import Home
spark = spark_session(SessionOptions(app_name="killed", master="local[2]", driver_memory="1g", shuffle_partitions=2))
print("ready", flush=True)
options = Namespace(decisions=[sys.argv[1]], files_at_once=1, fail_on_quarantine=False, skip_unreadable_files=False)
ingest.run(JobContext(spark, Home(sys.argv[2]), Console("x"), RunMetrics("x")), options)
"""


@pytest.mark.timeout(2 * _PATIENCE_S)
def test_killed_at_any_moment_and_run_again_no_line_is_lost_or_double(place: Place) -> None:
    for number in range(8):
        rows = decisions(100 * number, 100)
        for at, row in enumerate(rows):
            row["time"] += timedelta(days=at % 3)
        place.write(f"decisions-{number}.jsonl", [*(line_of(row) for row in rows), b"{\n"])
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(place.log), place.home.root],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        manifests = Path(place.home.root) / "decisions" / "manifests"
        deadline = time.monotonic() + _PATIENCE_S
        while len(list(manifests.glob("batch=*/_SUCCESS"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(Random().uniform(0, 1.5))
        os.killpg(process.pid, signal.SIGKILL)
    done = len(list(manifests.iterdir()))
    assert 2 <= done <= 8
    assert place.run() == 0
    assert place.offsets() == list(range(800))
    assert len(place.quarantine()) == 8


def test_actions_that_share_a_long_principal_are_ingested_each_with_it(place: Place) -> None:
    """More of them than are handed on at once, beside ordinary lines and one with a wrong action in it."""
    of_an_action = ("operation", "resource_type", "resource_name", "result", "rule", "acl_id")
    principal = "User:" + "x" * 32_762
    ordinary = decisions(0, 20)
    shared = {name: value for name, value in decisions(100, 1)[0].items() if name not in of_an_action}
    actions = [{name: row[name] for name in of_an_action} for row in decisions(0, 1_700)]
    stamp = shared["time"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    line = {**shared, "time": stamp, "principal": principal}
    told = json.dumps({**line, "actions": actions}).encode() + b"\n"
    wrong = json.dumps({**line, "actions": [actions[0], {**actions[1], "operation": "x"}]}).encode() + b"\n"
    place.write("decisions-1.jsonl", [*map(line_of, ordinary), told, wrong])
    place.run()
    assert place.offsets() == sorted([*range(20), *[100] * 1_700])
    found = read_decisions(place.spark, place.home).where(f"length(principal) = {len(principal)}")
    assert found.select("principal").distinct().count() == 1
    assert sorted(row[0] for row in found.select("resource_name").collect()) == sorted(
        each["resource_name"] for each in actions
    )
    [row] = place.quarantine()
    assert row["column"] == "operation"
