"""A small store with a decision log, all jobs over it in one driver, and what they leave in their home."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq

from app.core.kafka.bindings import StandardAcl
from app.pipeline.history.schemas import BINDING_FIELDS
from tests.images import binding_of
from tests.pipeline_jobs import Fields, jdbc_arguments, password_of
from tests.proof.pipeline.histories import feed_records, states, write_history
from tests.proof.pipeline.ingesting import line_of
from tests.proof.pipeline.logs import loaded, logged, random_questions

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("jobs_in_turn.py")
BUSY_PATIENCE_S = 1500.0

_TRANSACTIONS, _QUESTIONS, _FILES = 60, 1_500, 5
FILES = ("html", "flips", "csv", "script", "output")
"""What these jobs write where only the driver can, by the ends of their names."""

ENDS = [0, 0, 0, 1, 0, 0]
"""The change flips something, and all else is well."""

WELL = {"export": 0, "ingest": 0, "snapshot": 0, "effective": 0, "hygiene": 0, "what-if": 1, "reconcile": 0}
"""The exit codes of jobs that nothing hinders; the change flips something."""

_LESS = {"filters": [{"resource_type": "TOPIC", "pattern_type": "PREFIXED", "permission_type": "ALLOW"}]}
_MORE = {
    "bindings": [
        {
            "resource_type": "TOPIC",
            "resource_name": "*",
            "principal": "User:*",
            "operation": "READ",
            "permission_type": "ALLOW",
        }
    ]
}
_OF_A_RUN = {"generation", "after", "read_at", "as_of"}
_BATCH = re.compile(r"\b1\d{12}\b")
"""Batches of the decision log bear the time of their run in milliseconds."""


@dataclass(frozen=True)
class Company:
    """A store and its log; `inputs` is where executors read, `own` where only a driver need."""

    dsn: str
    inputs: Path
    own: Path

    def nightly(self, home: Path) -> list[str]:
        inputs = ("--decisions", "log"), ("--resources", "resources.csv"), ("--teams", "teams.csv")
        named = [word for flag, name in inputs for word in (flag, str(self.inputs / name))]
        report = ["--output", str(self.own / f"{home.name}.html")]
        return ["nightly", *jdbc_arguments(self.dsn), *named, *report, "--min-days", "0"]

    def all_jobs(self, home: Path) -> list[list[str]]:
        """They end with ENDS; `hygiene` and `report` of the night are made again with files of their own."""
        writing = self.writing()
        return [
            self.nightly(home),
            writing["effective"],
            [*writing["hygiene"], *self._file(home, "csv"), *self._file(home, "script")],
            [*writing["what-if"], *self._file(home, "flips")],
            ["report", *self._file(home, "output")],
            self.reconcile,
        ]

    def writing(self) -> dict[str, list[str]]:
        """Each job that writes into its home, with what it needs; in turn they leave what all jobs leave."""
        database = jdbc_arguments(self.dsn)
        return {
            "export": ["export", *database],
            "ingest": ["ingest", "--decisions", str(self.inputs / "log")],
            "snapshot": ["snapshot"],
            "effective": ["effective", "--expanded", "--resources", str(self.inputs / "resources.csv")],
            "hygiene": ["hygiene", "--min-days", "0"],
            "what-if": ["what-if", "--name", "both", *self._change("delete", "less"), *self._change("create", "more")],
        }

    @property
    def reconcile(self) -> list[str]:
        return ["reconcile", *jdbc_arguments(self.dsn)]

    def _change(self, what: str, name: str) -> tuple[str, str]:
        return f"--{what}", str(self.own / f"{name}.json")

    def _file(self, home: Path, kind: str) -> tuple[str, str]:
        return f"--{'csv' if kind == 'flips' else kind}", str(self.own / f"{home.name}.{kind}")


async def new_company(dsn: str, inputs: Path, own: Path) -> Company:
    await write_history(dsn, 15, _TRANSACTIONS)
    records = await feed_records(dsn)
    last = records[-1].offset
    image = loaded(map(_acl, sorted(states(records)[last].acls)), allow_everyone=False)
    rows = [{**row, "offset": last} for row in logged(image, random_questions(15, _QUESTIONS))]
    (inputs / "log").mkdir()
    for number in range(_FILES):
        lines = [*map(line_of, rows[number::_FILES]), b'{"half": ']
        (inputs / "log" / f"decisions-{number}.jsonl").write_bytes(b"".join(lines))
    asked = {(row["resource_type"], row["resource_name"]) for row in rows}
    names = sorted(each for each in asked if each[0] in {"TOPIC", "GROUP"} and each[1].isalnum())
    (inputs / "resources.csv").write_text("resource_type,resource_name\n" + "".join(f"{a},{b}\n" for a, b in names))
    (inputs / "teams.csv").write_text("principal,team\nUser:alice,blue\nUser:bob,green\n")
    (own / "less.json").write_text(json.dumps(_LESS))
    (own / "more.json").write_text(json.dumps(_MORE))
    return Company(dsn, inputs, own)


def _acl(fields: Fields) -> StandardAcl:
    return StandardAcl(UUID(fields[0]), binding_of(dict(zip(BINDING_FIELDS, fields[1:], strict=True))))


@dataclass(frozen=True)
class Undisturbed:
    """What a local run came to: its home, and what each job said."""

    home: Path
    said: list[dict[str, Any]]


def all_in_turn(
    company: Company, home: Path, where: Sequence[str], environment: Mapping[str, str]
) -> list[dict[str, Any]]:
    """All jobs in one driver; first comes what an executor has before Klamm is sent to it."""
    said = ended(started(company, home, company.all_jobs(home), where, environment))
    print(steps_of(company, home).read_text())
    return said


def started(
    company: Company, home: Path, jobs: Sequence[Sequence[str]], where: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    """A driver for these jobs: it says a line of JSON for each, and its steps to the file `steps_of`."""
    words = [[*each, "--home", str(home), *where] for each in jobs]
    with steps_of(company, home).open("a") as steps:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(company.own), json.dumps(words)],
            cwd=company.own,
            env={**environment, **password_of(company.dsn), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=steps,
            text=True,
            start_new_session=True,
        )


def steps_of(company: Company, home: Path) -> Path:
    return company.own / f"{home.name}.steps"


def ended(driver: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, _ = driver.communicate(timeout=BUSY_PATIENCE_S)
    assert driver.returncode == 0, out
    return [json.loads(line) for line in out.splitlines()]


def tables(home: Path) -> dict[str, Counter[str]]:
    """The rows of all tables that are read, and the documents, by folders; how many files hold them does not count."""
    found: dict[str, Counter[str]] = {}
    for path in home.rglob("part-*"):
        folder = path.parent.relative_to(home)
        if not _is_read(home, folder) or any(each.startswith((".", "_")) for each in folder.parts):
            continue
        rows_of_folder = found.setdefault(_BATCH.sub("N", str(folder)), Counter())
        rows_of_folder.update(_BATCH.sub("N", repr(row)) for row in _rows(path))
    return found


def _is_read(home: Path, folder: Path) -> bool:
    """Of the decision log nobody reads a batch without a manifest, which a run that was killed may leave, nor one in
    whose place its day has been merged, which the next run removes.
    """
    named = dict(each.split("=") for each in folder.parts if "=" in each)
    if not _BATCH.search(named.get("batch", "")):
        return True
    number, merged = int(named["batch"]), home / "decisions" / "merged" / f"day={named.get('day')}"
    if (merged / "_SUCCESS").exists():
        (document,) = merged.glob("part-*")
        manifest = json.loads(document.read_text())
        if number <= manifest["through"]:
            return bool(number == manifest["batch"])
    return (home / "decisions" / "manifests" / f"batch={number}" / "_SUCCESS").exists()


def _rows(path: Path) -> Sequence[Any]:
    if path.suffix == ".parquet":
        rows: list[Any] = pq.ParquetFile(path).read().to_pylist()
        return rows
    lines = path.read_text().splitlines()
    return lines if path.parent.name == "last-used" else [_sorted(line) for line in lines]


def _sorted(document: str) -> dict[str, Any]:
    """With its lists in order, which is that of Spark's rows; without what tells the runs of a job apart."""
    fields = json.loads(document).items()
    kept = ((name, value) for name, value in fields if name not in _OF_A_RUN)
    return {name: sorted(value, key=repr) if isinstance(value, list) else value for name, value in kept}


def assert_equal(at: Path, expected: Path) -> None:
    found, wanted = tables(at), tables(expected)
    # Every home has a name of its own, by which the store knows it.
    for each in (found, wanted):
        assert each.pop("export/exporter", None)
    assert found.keys() == wanted.keys()
    for folder, rows in wanted.items():
        assert found[folder] == rows, folder
    assert len(wanted) > 10
