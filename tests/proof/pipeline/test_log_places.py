"""Files of the decision log are known by what they hold: they may move, and lie in several folders."""

import gzip
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.pipeline.history.ingest import Turn
from app.pipeline.history.log_files import NOTHING, Content, LogFile, Taken
from app.pipeline.history.log_pieces import finished_batches, in_turn
from app.pipeline.history.schemas import FILES
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.home_lock import unlocked
from tests.proof.pipeline.ingesting import Place, decisions, line_of


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


def lines(first: int, count: int) -> list[bytes]:
    return [line_of(row) for row in decisions(first, count)]


def test_moved_folders_copies_and_compressed_files_are_taken_once(place: Place) -> None:
    """Three replicas, whose files have the same names and other lines."""
    folders = [place.log.with_name(f"volume {number} %20é") for number in range(3)]
    for number, folder in enumerate(folders):
        (folder / "pod=a").mkdir(parents=True)
        (folder / "decisions-1.jsonl").write_bytes(b"".join(lines(100 * number, 10)))
        (folder / "pod=a" / "decisions-[2].jsonl").write_bytes(b"".join(lines(100 * number + 10, 10)))
    # In one batch, and in several: the same streams twice in one run.
    shutil.copytree(folders[0], folders[0].with_name("copy"))
    assert place.run("--files-at-once", "3", folders=[*folders, folders[0].with_name("copy"), folders[1]]) == 0
    wanted = [100 * number + at for number in range(3) for at in range(20)]
    assert place.offsets() == wanted
    folders[2].rename(place.log / "moved")
    plain = place.log / "moved" / "decisions-1.jsonl"
    plain.with_suffix(".jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    shutil.copytree(folders[1], place.log, dirs_exist_ok=True)
    (place.log / "decisions-1.jsonl").rename(place.log / "decisions-renamed.jsonl")
    assert place.run() == 0
    assert place.offsets() == wanted
    assert "0 decisions taken" in place.said.getvalue()
    # What was looked at once is passed over.
    finished = len(finished_batches(place.spark, place.home))
    assert place.run() == 0
    assert len(finished_batches(place.spark, place.home)) == finished


def test_a_copy_that_was_not_whole_yet_is_taken_on_from_there(place: Place) -> None:
    whole = b"".join(lines(0, 30))
    cut = whole.index(b"\n", len(whole) // 2) + 40
    place.write("decisions-1.jsonl", [whole[:cut]])
    place.run()
    taken = len(place.offsets())
    assert 0 < taken < 30
    assert len(place.quarantine()) == 1
    place.write("decisions-1.jsonl", [whole])
    place.run()
    assert place.offsets() == list(range(30))
    # The half comes again from a backup, and a stream that only begins alike comes for the first time.
    place.write("decisions-1.jsonl", [whole[:cut]])
    place.write("decisions-2.jsonl", [*lines(0, 5), *lines(40, 40)])
    place.run()
    assert place.offsets() == sorted([*range(30), *range(5), *range(40, 80)])


@pytest.mark.parametrize("skips", [False, True])
def test_a_file_that_gives_no_line_is_not_marked_as_read(place: Place, skips: bool) -> None:  # noqa: FBT001
    """As where executors can't open what they see: here it is no gzip at all, or it has disappeared."""
    place.write("decisions-1.jsonl", lines(0, 10))
    (place.log / "decisions-2.jsonl.gz").write_bytes(b"".join(lines(10, 10)))
    if skips:
        assert place.run("--skip-unreadable-files") == 0
        assert place.offsets() == list(range(10))
    else:
        with pytest.raises(PipelineError, match=r"decisions-2\.jsonl\.gz` can't be read \(it is torn\)"):
            place.run()
    (place.log / "decisions-2.jsonl.gz").write_bytes(gzip.compress(b"".join(lines(10, 10))))
    place.run()
    assert place.offsets() == list(range(20))


def test_what_was_written_late_by_a_run_that_had_lost_the_home_is_not_read() -> None:
    first = Turn.begin(unlocked, {})
    assert (first.generation, first.after) == (first.began, -1)
    assert first.batch(1) == first.began + 1 > 1_700_000_000_000
    of_first = {"generation": 1, "after": -1}
    second = Turn.begin(unlocked, {100: of_first})
    assert (second.generation, second.after) == (second.began, 100)
    # Also for a clock that was set back.
    ahead = {1 << 50: {"generation": 1 << 50, "after": -1}}
    assert Turn.begin(unlocked, ahead).generation == Turn.begin(unlocked, ahead).batch(0) == (1 << 50) + 1
    of_second = {"generation": 2, "after": 100}
    written = {100: of_first, 101: of_first, 200: of_second, 201: of_second}
    assert set(in_turn(written)) == {100, 200, 201}
    # What is late itself makes nobody else late; who has found it, takes it as it is.
    assert set(in_turn({100: of_first, 101: of_first, 200: {"generation": 2, "after": 101}})) == {100, 101, 200}
    # Two that had found the same, of which the first wrote late.
    while (third := Turn.begin(unlocked, {100: of_first})).began == second.began:
        pass
    both = {each.batch(0): {"generation": each.generation, "after": each.after} for each in (second, third)}
    assert set(in_turn({100: of_first, **both})) == {100, third.batch(0)}


def test_parts_of_streams_are_told_apart(spark: SparkSession) -> None:
    taken = Taken(spark.createDataFrame([], FILES))
    taken.look_up(["a"])
    digests = {4: 40, 9: 90}
    assert taken.take(LogFile("f", 1, 1), Content("a", 9, 90), digests.get) == 0
    assert taken.take(LogFile("g", 1, 1), Content("a", 9, 90), digests.get) == NOTHING
    assert taken.take(LogFile("f.gz", 1, 1), Content("a", 4, 40), digests.get) == NOTHING
    assert taken.take(LogFile("h", 1, 1), Content("a", 12, 1), digests.get) == 9
    assert taken.take(LogFile("h", 1, 1), Content("a", 12, 2), lambda _: None) == 0
