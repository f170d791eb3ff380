"""A change of ACLs tried on the log: what flips is what core says when it is replayed in plain Python."""

import argparse
import csv
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from app.core.epochs import Epochs
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.validation import validate_new_acl
from app.pipeline.access.changes import new_id
from app.pipeline.access.what_if import flips_of
from app.pipeline.context import JobContext
from app.pipeline.history.ingest import Turn, parsed, write_batch
from app.pipeline.history.schemas import FILES, FLIPS
from app.pipeline.history.snapshot import Snapshot, save_snapshot
from app.pipeline.jobs import what_if
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.home_lock import unlocked
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home, read_documents
from tests.images import EPOCH, numbered
from tests.proof.pipeline.logs import BEGAN, Question, answer, loaded, logged, random_questions
from tests.proof.pipeline.random_stores import acl_frame, fields_of, random_acls

Change = tuple[str, list[Any]]


def _fields(binding: AclBinding) -> dict[str, str]:
    return {name: value for name, value in fields_of(StandardAcl(EPOCH, binding)).items() if name != "id"}


def _filter_fields(acl_filter: AclBindingFilter) -> dict[str, str | None]:
    fields = {name: getattr(acl_filter, name) for name in AclBindingFilter.__dataclass_fields__}
    return {name: getattr(value, "name", value) for name, value in fields.items()}


def _change_files(path: Path, changes: Sequence[Change]) -> list[str]:
    """The change as files, and the options that name them."""
    options = []
    for number, (kind, entries) in enumerate(changes):
        file = path / f"{number}.json"
        body: dict[str, Any] = {"context": {"principal": "User:admin"}}
        if kind == "create":
            body["bindings"] = [_fields(each) for each in entries]
        else:
            body["filters"] = [_filter_fields(each) for each in entries]
        file.write_text(json.dumps(body))
        options += [f"--{kind}", str(file)]
    return options


def _applied(acls: Sequence[StandardAcl], changes: Sequence[Change]) -> list[StandardAcl]:
    """The ACLs after the change, in plain Python."""
    store = {acl.binding: acl for acl in acls}
    for kind, entries in changes:
        for entry in entries:
            if kind == "create":
                store.setdefault(entry, StandardAcl(new_id(entry), entry))
            else:
                store = {binding: acl for binding, acl in store.items() if not entry.matches(binding)}
    return list(store.values())


def _draw(seed: int, acls: Sequence[StandardAcl], *, everyone: bool) -> list[Change]:
    draw = Random(seed)
    some = [acl.binding for acl in acls if everyone or acl.binding.principal != "User:*"]
    fresh = [acl.binding for acl in random_acls(seed + 100, 12) if everyone or acl.binding.principal != "User:*"]
    # The store may hold what an older service let in; what is created is checked.
    fresh = [binding for binding in fresh if validate_new_acl(binding) is None]
    creatable = [binding for binding in some if validate_new_acl(binding) is None]
    exact = [AclBindingFilter(**{name: getattr(each, name) for name in each._fields}) for each in some]
    drawn = draw.sample(creatable, 5)
    return [
        ("delete", [*draw.sample(exact, len(exact) // 3), AclBindingFilter(principal="User:bob", resource_name="ab")]),
        ("create", [*fresh, *drawn, *fresh[:2]]),
        ("delete", [AclBindingFilter(principal=drawn[0].principal, host=drawn[0].host), exact[0]]),
        ("create", [creatable[0]]),
    ]


class Place:
    """A home with a snapshot and a log, and runs of the job on it."""

    def __init__(
        self,
        spark: SparkSession,
        path: Path,
        acls: list[StandardAcl],
        log: list[dict[str, Any]],
        configs: dict[str, str] | None = None,
    ) -> None:
        self.spark, self.path = spark, path
        self.home = Home(str(path / "home"))
        save_snapshot(
            spark, self.home, Snapshot(acl_frame(spark, acls), configs or {}, "c", Epochs.only(EPOCH), 7, BEGAN, "00")
        )
        lines = [json.dumps({**row, "time": row["time"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")}).encode() for row in log]
        frame = spark.createDataFrame([(line, "f") for line in lines], "value binary, file string")
        rows = parsed(frame, {"f": 0}).where("stream IS NULL")
        write_batch(self.home, rows, spark.createDataFrame([], FILES), 0, Turn.begin(unlocked, {}))
        self.said = io.StringIO()

    def run(self, *options: str) -> int:
        parser = argparse.ArgumentParser()
        what_if.add_arguments(parser)
        console = Console("what-if", quiet=True, results=self.said)
        return what_if.run(
            JobContext(self.spark, self.home, console, RunMetrics("what-if")), parser.parse_args(options)
        )

    def flips(self, name: str) -> dict[Any, Any]:
        frame = self.spark.read.schema(FLIPS).parquet(self.home.room("what-if", name, "flips"))
        times = {each: sf.unix_micros(each) for each in ("first_time", "last_time")}
        key = ("principal", "operation", "resource_type", "resource_name", "before", "after")
        return {tuple(row[name] for name in key): row.asDict() for row in frame.withColumns(times).collect()}


def _micros(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("seed", "everyone", "allow_everyone"),
    [
        (1, False, False),
        (2, True, False),
        (3, False, True),
    ],
)
def test_what_flips_is_what_core_says(
    spark: SparkSession, tmp_path: Path, *, seed: int, everyone: bool, allow_everyone: bool
) -> None:
    acls = random_acls(seed, 25)
    changes = _draw(seed, acls, everyone=everyone)
    before, after = (loaded(some, allow_everyone=allow_everyone) for some in (acls, _applied(acls, changes)))
    # The log was written on other ACLs, so some of it has drifted.
    written = loaded(acls[: len(acls) * 9 // 10], allow_everyone=allow_everyone)
    log = logged(written, random_questions(seed, 2_500))
    place = Place(spark, tmp_path, acls, log)
    options = [*_change_files(tmp_path, changes), "--allow-everyone-if-no-acl-found", str(allow_everyone).lower()]
    expected: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    drifted = 0
    for row in log:
        question: Question = tuple(
            row[each] for each in ("principal", "host", "operation", "resource_type", "resource_name")
        )
        old, new = answer(before, question), answer(after, question)
        drifted += old[0] != row["result"]
        if old[0] != new[0]:
            expected[(question[0], *question[2:], old[0], new[0])].append({**row, "ids": (old[2], new[2])})
    assert place.run(*options, "--name", "try") == 1
    found = place.flips("try")
    assert found.keys() == expected.keys()
    assert len(found) > 10
    for key, rows in expected.items():
        flip = found[key]
        times = [_micros(row["time"]) for row in rows]
        assert (flip["decisions"], flip["first_time"], flip["last_time"]) == (len(rows), min(times), max(times))
        assert flip["hosts"] == sorted({row["host"] for row in rows})
        assert flip["before_acl_id"] in {row["ids"][0] for row in rows}
        assert flip["after_acl_id"] in {row["ids"][1] for row in rows}
    (manifest,) = read_documents(spark, place.home.room("what-if", "try", "manifest"))
    counts = manifest["counts"]
    assert (counts["decisions"], counts["drifted"], counts["flips"]) == (len(log), drifted, len(found))
    assert counts["newly_denied"] == sum(len(rows) for key, rows in expected.items() if key[-1] == "DENIED")
    assert counts["newly_allowed"] == sum(len(rows) for key, rows in expected.items() if key[-1] == "ALLOWED")
    kept = {acl.id for acl in acls} & {acl.id for acl in _applied(acls, changes)}
    assert counts["acls_deleted"] == len(acls) - len(kept)
    assert counts["acls_created"] == len(_applied(acls, changes)) - len(kept)
    assert f"newly denied {counts['newly_denied']:,}" in place.said.getvalue()
    if seed == 1:
        _exit_codes(place, tmp_path, acls)


def test_super_users_are_those_of_the_snapshot_where_it_names_any(spark: SparkSession, tmp_path: Path) -> None:
    acls = numbered([_read("User:was"), _read("User:is")])
    asked: list[Question] = [(each, "10.0.0.1", "READ", "TOPIC", "a") for each in ("User:was", "User:is")]
    log = logged(loaded(acls, allow_everyone=False), asked)
    log[0] |= {"rule": "SuperUser", "acl_id": None}
    gone = _change_files(tmp_path, [("delete", [AclBindingFilter()])])
    for number, (configs, flipped) in enumerate(
        [({"super.users": "User:is"}, {"User:was"}), ({"super.users": ""}, {"User:was", "User:is"}), ({}, {"User:is"})]
    ):
        path = tmp_path / str(number)
        path.mkdir()
        place = Place(spark, path, acls, log, configs)
        assert place.run(*gone, "--name", "gone") == 1
        assert {key[0] for key in place.flips("gone")} == flipped


def test_a_flip_names_the_acls_that_decide_most_of_its_decisions(spark: SparkSession) -> None:
    def turned(host: str, decisions: int, *acl_ids: str | None) -> tuple[Any, ...]:
        return ("User:a", host, "READ", "TOPIC", "a", decisions, BEGAN, BEGAN, "ALLOWED", "DENIED", *acl_ids)

    # One host asks most often, and two others have more together; of equals the first in the order of texts is named.
    rows = [turned("1", 5, "b", "y"), turned("2", 4, "a", "x"), turned("3", 4, "a", "x"), turned("4", 3, "c", "y")]
    names = "principal string, host string, operation string, resource_type string, resource_name string, "
    names += "decisions bigint, first_time timestamp, last_time timestamp, result string, after_result string, "
    (flip,) = flips_of(spark.createDataFrame(rows, names + "acl_id string, after_acl_id string")).collect()
    assert (flip["decisions"], flip["before_acl_id"], flip["after_acl_id"]) == (16, "a", "x")


def _read(principal: str) -> AclBinding:
    topic, literal, read = ResourceType.TOPIC, PatternType.LITERAL, AclOperation.READ
    return AclBinding(topic, "a", literal, principal, "*", read, AclPermissionType.ALLOW)


def _creatable(acls: list[StandardAcl]) -> AclBinding:
    return next(acl.binding for acl in acls if validate_new_acl(acl.binding) is None)


def _exit_codes(place: Place, path: Path, acls: list[StandardAcl]) -> None:
    nothing = _change_files(
        path, [("create", [_creatable(acls)]), ("delete", [AclBindingFilter(principal="User:nobody")])]
    )
    assert place.run(*nothing, "--name", "nothing") == 0
    assert place.flips("nothing") == {}
    opened = _change_files(path, [("delete", [AclBindingFilter(permission_type=AclPermissionType.DENY)])])
    assert place.run(*opened, "--fail-on", "denied", "--name", "opened") == 0
    assert {key[-1] for key in place.flips("opened")} == {"ALLOWED"}
    assert place.run(*opened, "--name", "opened") == 1
    listed = path / "flips.csv"
    assert place.run(*opened, "--name", "opened", "--top", "0", "--csv", str(listed)) == 1
    with listed.open(encoding="utf-8", newline="") as stream:
        flips = list(csv.DictReader(stream))
    assert {(each["principal"], each["resource_name"], each["operation"]) for each in flips} == {
        (key[0], key[3], key[1]) for key in place.flips("opened")
    }
    assert all(each["first_time"].endswith("Z") for each in flips)
    assert place.run(*opened, "--name", "opened", "--until", "2026-11-01T00:00:00Z") == 0
    with pytest.raises(PipelineError, match="nothing to try"):
        place.run()
