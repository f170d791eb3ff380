import argparse
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from app.core.epochs import Epochs
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.pipeline.access.effective import load_effective
from app.pipeline.access.resources import read_resources
from app.pipeline.context import Job, JobContext
from app.pipeline.history.snapshot import Snapshot, save_snapshot
from app.pipeline.jobs import effective, who
from app.pipeline.jobs import what as what_job
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home
from tests.images import numbered
from tests.pipeline.random_stores import acl_frame

HEADER = "resource_type,resource_name\n"
JSON = '{"resource_type": "TOPIC", "resource_name": "a"}'


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(str(tmp_path_factory.mktemp("home")))
    acls = numbered(
        [
            _acl("orders", "User:alice", "READ"),
            _acl("orders", "User:bob", "WRITE", host="10.0.0.0/8"),
            _acl("ord", "User:*", "DESCRIBE", PatternType.PREFIXED),
            _acl("*", "User:eve", "ALL", permission=AclPermissionType.DENY),
            _acl("a:b", "User:alice", "WRITE"),
        ]
    )
    configs = {"super.users": "User:root"}
    as_of = datetime(2026, 11, 22, tzinfo=UTC)
    save_snapshot(spark, home, Snapshot(acl_frame(spark, acls), configs, "c", Epochs.only(UUID(int=1)), 7, as_of, "00"))
    return home


def _acl(
    name: str,
    principal: str,
    operation: str,
    pattern_type: PatternType = PatternType.LITERAL,
    host: str = "*",
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern_type, principal, host, AclOperation[operation], permission)


def _run(spark: SparkSession, home: Home, job: Job, arguments: Sequence[str]) -> tuple[int, list[str], str]:
    """Exit code, lines of the result, and what was said beside it."""
    parser = argparse.ArgumentParser()
    job.add_arguments(parser)
    results, steps = io.StringIO(), io.StringIO()
    console = Console(job.name, steps=steps, results=results)
    status = job.run(JobContext(spark, home, console, RunMetrics(job.name)), parser.parse_args(arguments))
    return status, results.getvalue().splitlines(), steps.getvalue()


def test_who_names_each_principal_and_host_with_its_acls(spark: SparkSession, home: Home) -> None:
    _, lines, _ = _run(spark, home, who.JOB, ["topic:orders", "--output", "json"])
    rows = [json.loads(line) for line in lines]
    assert [(row["principal"], row["host"], row["operations"][:2], row["denied"][:1]) for row in rows] == [
        ("User:root", "*", ["READ", "WRITE"], []),
        ("User:*", "*", ["DESCRIBE"], []),
        ("User:alice", "*", ["READ", "DESCRIBE"], []),
        ("User:bob", "*", ["DESCRIBE"], []),
        ("User:bob", "10.0.0.0/8", ["WRITE", "DESCRIBE"], []),
        ("User:eve", "*", [], ["READ"]),
    ]
    assert rows[0]["by"] == ["super.users"]
    assert [by.partition(" (")[0] for by in rows[4]["by"]] == [
        "ALLOW WRITE on LITERAL orders from 10.0.0.0/8",
        "ALLOW DESCRIBE on PREFIXED ord for User:* from *",
    ]


def test_people_are_told_an_acl_of_everyone_once(spark: SparkSession, home: Home) -> None:
    _, lines, _ = _run(spark, home, who.JOB, ["topic:orders"])
    assert len([line for line in lines if "ALLOW DESCRIBE on PREFIXED ord for User:*" in line]) == 1
    assert [line.rpartition("  ")[2].rpartition("; ")[2] for line in lines[3:]] == ["1 of User:*, see above"] * 4


def test_who_takes_any_name_and_narrows_by_operation_and_client(spark: SparkSession, home: Home) -> None:
    _, lines, _ = _run(spark, home, who.JOB, ["topic:a:b", "--operation", "write", "--output", "csv"])
    assert [line.split(",")[0] for line in lines] == ["principal", "User:root", "User:alice", "User:eve"]
    _, lines, _ = _run(spark, home, who.JOB, ["topic:orders", "--host", "192.0.2.1", "--operation", "WRITE"])
    assert [line.split()[0] for line in lines] == ["principal", "User:root", "User:eve"]
    _, lines, beside = _run(spark, home, who.JOB, ["group:unheard-of"])
    assert [line.split()[0] for line in lines] == ["principal", "User:root"]
    assert "it has no ACLs, so nobody else is allowed" in beside


def test_super_users_of_the_start_up_settings_are_named_apart_or_said_to_be_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    home, as_of = Home(str(tmp_path / "home")), datetime(2026, 11, 22, tzinfo=UTC)
    deny = _acl("orders", "User:boss", "READ", permission=AclPermissionType.DENY)
    acls = acl_frame(spark, numbered([_acl("orders", each, "READ") for each in ("User:alice", "Group:ops")] + [deny]))
    save_snapshot(spark, home, Snapshot(acls, {}, "c", Epochs.only(UUID(int=1)), 7, as_of, "00"))
    asked = ["topic:orders", "--output", "json"]
    _, _, beside = _run(spark, home, who.JOB, asked)
    assert (
        "the store has none, and does not know those that the service is started with; give them with --super" in beside
    )
    _, lines, beside = _run(spark, home, who.JOB, [*asked, "--super-users", "User:boss;User:ops;Group:ops"])
    rows = [json.loads(line) for line in lines]
    # The DENY takes no effect on a super user, but members of a group of its name have what the group has.
    assert [(row["principal"], row["by"][0]) for row in rows[:3]] == [
        ("Group:ops", "--super-users"),
        ("User:boss", "--super-users"),
        ("User:ops", "--super-users"),
    ]
    assert [row["principal"] for row in rows[3:]] == ["Group:ops", "User:alice"]
    assert "super users" not in beside

    _, _, beside = _run(spark, home, what_job.JOB, ["User:boss"])
    assert "give them with --super-users" in beside
    _, lines, beside = _run(spark, home, what_job.JOB, ["User:boss", "--super-users", "User:boss", "--output", "json"])
    first = json.loads(lines[0])
    assert (first["kind"], first["operations"], first["by"]) == ("SUPER_USER", ["ALL"], "--super-users")
    assert "is a super user" in beside


def test_stored_super_users_stand_over_those_of_the_start_up_settings(spark: SparkSession, home: Home) -> None:
    _, lines, beside = _run(spark, home, who.JOB, ["group:g", "--super-users", "User:other", "--output", "json"])
    assert [json.loads(line)["principal"] for line in lines] == ["User:root"]
    assert "--super-users is not used" in beside
    _, lines, _ = _run(spark, home, what_job.JOB, ["User:root", "--output", "json"])
    assert json.loads(lines[0])["kind"] == "SUPER_USER"


def test_a_snapshot_that_is_not_there_is_named(spark: SparkSession, home: Home) -> None:
    with pytest.raises(PipelineError, match="there is no snapshot at offset 3"):
        _run(spark, home, who.JOB, ["topic:x", "--offset", "3"])


def test_what_lists_patterns_and_after_effective_resources_too(spark: SparkSession, home: Home, tmp_path: Path) -> None:
    _, lines, beside = _run(spark, home, what_job.JOB, ["User:alice", "--output", "json"])
    assert {json.loads(line)["kind"] for line in lines} == {"LITERAL", "PREFIXED"}
    assert "once `klamm pipeline effective` has run" in beside

    listed = tmp_path / "topics.txt"
    listed.write_text("orders\norder-lines\npayments\n")
    status, lines, _ = _run(spark, home, effective.JOB, ["--resources", str(listed), "--expanded"])
    assert status == 0
    assert lines == ["effective access at offset 7: 3 resources, 5 masks, 6 nodes, 9 expanded"]
    tables = load_effective(spark, home)
    assert tables is not None
    assert tables.manifest["counts"]["nodes"] == tables.nodes.count() == 6

    _, lines, _ = _run(spark, home, what_job.JOB, ["User:alice", "--output", "json"])
    resources = [json.loads(line) for line in lines if '"RESOURCE"' in line]
    assert [(row["resource_name"], row["operations"]) for row in resources] == [
        ("order-lines", ["DESCRIBE"]),
        ("orders", ["READ", "DESCRIBE"]),
    ]
    for address, operations in (("10.1.1.1", ["WRITE", "DESCRIBE"]), ("192.0.2.1", ["DESCRIBE"])):
        _, lines, _ = _run(spark, home, what_job.JOB, ["User:bob", "--host", address, "--output", "json"])
        rows = [json.loads(line) for line in lines]
        assert [
            row["operations"] for row in rows if row["resource_name"] == "orders" and row["kind"] == "RESOURCE"
        ] == [operations]


def test_what_tells_of_resources_that_are_open_to_all(spark: SparkSession, tmp_path: Path) -> None:
    home, as_of = Home(str(tmp_path / "home")), datetime(2026, 11, 22, tzinfo=UTC)
    acls = acl_frame(spark, numbered([_acl("orders", "User:alice", "READ")]))
    configs = {"allow.everyone.if.no.acl.found": "true"}
    save_snapshot(spark, home, Snapshot(acls, configs, "c", Epochs.only(UUID(int=1)), 7, as_of, "00"))
    _, _, beside = _run(spark, home, what_job.JOB, ["User:bob"])
    assert "resources without ACLs are not listed: everyone is allowed" in beside


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet"])
def test_names_of_resources_are_kept_to_the_character(spark: SparkSession, tmp_path: Path, extension: str) -> None:
    names = [" a ", "a,b", 'q"uo"te', "two\nlines", "back\\slash\\", "😀é", "#x", "a"]
    path = tmp_path / f"list.{extension}"
    rows = [("TOPIC", name) for name in (*names, "a")]
    if extension == "csv":
        quoted = ['TOPIC,"' + name.replace('"', '""') + '"' for _, name in rows]
        path.write_text(HEADER + "\r\n".join(quoted) + "\r\nGROUP,unquoted\r\n", newline="")
    elif extension == "jsonl":
        path.write_text("".join(json.dumps({"resource_name": n, "resource_type": t}) + "\n" for t, n in rows))
    else:
        spark.createDataFrame(rows, "resource_type string, resource_name string").write.parquet(str(path))
    found = {tuple(row) for row in read_resources(spark, str(path)).collect()}
    assert found - {("GROUP", "unquoted")} == {("TOPIC", name) for name in names}


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("list.xml", "", "unknown format of a resource list; known are .csv"),
        ("list.csv", "type,resource_name\nTOPIC,a\n", "no column `resource_type`; its columns are type, resource_name"),
        ("list.csv", HEADER + "TOPIC,a\nTOPICS,b\n", "unknown resource type in `TOPICS,b`, known are TOPIC, GROUP"),
        ("list.csv", HEADER + "TOPIC,a,b\n", "the row does not match the columns: `TOPIC,a,b`"),
        ("list.csv", HEADER + "TOPIC,\n", "no `resource_name` in `TOPIC"),
        (
            "list.jsonl",
            '{"resource_type": "TOPIC", "resource_name": "a"}\n{"resource',
            'does not match .*: `{"resource`',
        ),
        ("list.jsonl", '{"resource_type": "TOPIC", "resource_name": 5}\n', "does not match .*: 5}`"),
        ("list.jsonl", '{"resource_type": "TOPIC", "resource_name": "\\ud800"}\n', "does not match .*ud800"),
        ("list.jsonl", JSON + " " + JSON, "does not match the columns"),
        ("list.jsonl", JSON[:-1] + ', "resource_name": "b"}', "does not match the columns"),
        ("list.csv", HEADER + 'TOPIC,"a\nTOPIC,b\n', "unclosed quote"),
        ("list.csv", HEADER + "TOPIC,a\nTOPIC,b\udcff\n", "not UTF-8: `TOPIC,b\ufffd`"),
        ("list.txt", "a\nb\udcff\n", "not UTF-8: `b\ufffd`"),
        ("_list.txt", "a\n", "Spark ignores files whose names begin with `_`"),
        (".list.jsonl.gz", "", "Spark ignores"),
        ("list.jsonl", '{"resource_type": "TOPIC"}\n', "no `resource_name` in `TOPIC`"),
        ("list.jsonl", '{"resource_type": "ANY", "resource_name": "a"}\n', "unknown resource type in `ANY,a`"),
        ("list.parquet", "no parquet", "can't be read as parquet"),
        ("missing.csv", None, "there is no such file or folder"),
    ],
)
def test_a_bad_list_of_resources_names_the_row_or_column(
    spark: SparkSession, tmp_path: Path, file: str, content: str | None, text: str
) -> None:
    path = tmp_path / file
    if content is not None:
        path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(PipelineError, match=text):
        read_resources(spark, str(path))
