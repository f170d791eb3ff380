import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import import_acls as import_command
from app.cli.entry_point import main
from app.core.continuity import KnownHistory
from app.runtime.importing import Importer
from tests.fakes import FakeStore
from tests.scripted_server import ScriptedServer, reply
from tests.surroundings import of_a_command

DSN = "postgresql://klamm:planted-secret@127.0.0.1:1/klamm"
LINE = json.dumps(
    {
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "principal": "User:alice",
        "operation": "READ",
        "permission_type": "ALLOW",
    }
)

USER = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata:
  name: shop
spec:
  authentication: {type: scram-sha-512}
  authorization:
    type: simple
    acls: [{resource: {type: topic, name: orders, patternType: literal}, operations: [Read]}]
"""
TOPIC = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata: {name: orders}\nspec: {partitions: 3}\n"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeStore]:
    """The store that an import writes to; no variable of ours but its URL; logs and signals as they were before."""
    store = FakeStore()
    with of_a_command(monkeypatch, tmp_path):
        monkeypatch.setenv("KLAMM_DATABASE_URL", DSN)
        monkeypatch.setattr("os.nice", lambda _: None)
        monkeypatch.setattr(import_command, "PostgresBulkStore", lambda url: store if url.dsn == DSN else None)
        yield store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "acls.jsonl"
    path.write_text(f"{LINE}\n{LINE}\n", encoding="utf-8")
    return path


def test_what_came_of_it_is_told_on_standard_output(
    path: Path, store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(path), "--actor", "User:me"]) == 0
    said = capsys.readouterr()
    head, _, rest = said.out.partition("seconds: ")
    assert head == "created: 1\nalready there: 0\nrepeated in the file: 1\n"
    assert float(rest.splitlines()[0]) >= 0
    assert rest.splitlines()[1:] == [f"token: {store.epoch}:1"]
    (record,) = store.tables.records
    assert record.actor == "User:me"
    assert said.err == ""


def test_the_batch_is_as_large_as_told(path: Path, store: FakeStore) -> None:
    path.write_text("\n".join(LINE.replace("orders", f"t{at}") for at in range(25)), encoding="utf-8")
    assert main(["import", str(path), "--batch", "10"]) == 0
    assert [len(batch) for batch in store.batches] == [10, 10, 5]


@pytest.mark.parametrize(("rate", "steps"), [("1000", [10]), ("0", [])])
def test_it_gives_way_to_other_processes_unless_it_is_to_be_fast(
    rate: str, steps: list[int], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr("os.nice", taken.append)
    assert main(["import", str(path), "--rate", rate]) == 0
    assert taken == steps


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-", "--batch", "0"], "expected a whole number from 1 to 10,000"),
        (["-", "--batch", "10001"], "expected a whole number from 1 to 10,000"),
        (["-", "--batch", "9" * 5_000], "expected a whole number from 1 to 10,000"),
        (["-", "--batch", "-1"], "--batch"),
        (["-", "--rate", "1000001"], "expected a whole number from 0 to 1,000,000"),
        (["-", "--rate", "fast"], "expected a whole number from 0 to 1,000,000"),
        (["-", "--batch", "٣"], "expected a whole number from 1 to 10,000"),
        (["-", "--actor", "me"], "`me` is not a principal such as User:admin"),
        (["-", "--actor", "User:\x1bx"], '`"User:\\u001bx"` is not a principal such as User:admin'),
        (["-", "--actor", "User:\udcff"], '`"User:\\udcff"` is not a principal such as User:admin'),
        (
            ["-", "--comment", "x" * 501],
            "klamm import: --comment: it has 501 characters, but may have at most 500; see",
        ),
        (["-", "--comment", " "], "--comment: it must not be empty"),
        (["-", "--comment", "a\x1bb"], "--comment: it contains U+001B"),
        (["-", "--comment", "\udcff"], "--comment: `\\udcff` is not UTF-8"),
        ([], "FILE"),
    ],
)
def test_a_bad_argument_is_told(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["import", *arguments])
    assert refused.value.code == 2
    assert told in capsys.readouterr().err


def test_a_file_that_is_missing_or_bad_is_told_and_nothing_is_written(
    path: Path, store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "missing"]) == 2
    assert capsys.readouterr().err == "klamm import: `missing` can't be read (No such file or directory)\n"
    path.write_text("{", encoding="utf-8")
    assert main(["import", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"klamm import: nothing was written; fix this first:\n{path}:1: not JSON: Expecting ")
    assert said.count("\n") == 2
    assert store.batches == []


def test_a_store_that_refuses_is_told_with_how_far_it_came(
    path: Path, store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.unreachable = True
    assert main(["import", str(path)]) == 1
    assert capsys.readouterr().err == (
        "klamm import: database `127.0.0.1:1/klamm`, user `klamm`: PostgreSQL can't be reached; retry; 0 of the 2 "
        f"ACLs in `{path}` are in the store; once that is fixed, run the same command again to resume\n"
    )


def test_a_file_that_changes_underneath_is_told_with_how_far_it_came(
    path: Path, store: FakeStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil() -> None:
        path.write_text("{}", encoding="utf-8")

    async def run(self: Importer, bindings: Iterator[object]) -> None:
        spoil()
        next(bindings)
        raise AssertionError(self)

    monkeypatch.setattr(Importer, "run", run)
    assert main(["import", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        f"klamm import: {path}:1: the file changed while it was being read (it is in no format that Klamm recognises"
    )
    assert "; 0 of the 2 ACLs in " in said
    assert store.batches == []


def test_ctrl_c_while_the_file_is_checked_writes_nothing(
    path: Path, store: FakeStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("app.client.acl_files.AclFile.check", interrupted)
    assert main(["import", str(path)]) == 130
    assert capsys.readouterr().err == "klamm import: interrupted; nothing was written\n"
    assert store.batches == []


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_a_signal_ends_it_after_the_batch_under_way_and_a_second_one_within(
    signals: list[signal.Signals], path: Path, store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text("\n".join(LINE.replace("orders", f"t{at}") for at in range(25)), encoding="utf-8")
    add = store.add

    async def add_and_be_told(acls: dict[bytes, object], actor: str, known: KnownHistory, _: str | None) -> object:
        for each in signals:
            signal.raise_signal(each)
        if len(signals) > 1:
            store.hang("write")
        return await add(acls, actor, known)  # type: ignore[arg-type]  # as it came

    store.add = add_and_be_told  # type: ignore[method-assign, assignment]  # the same, with a signal in its midst
    assert main(["import", str(path), "--batch", "10"]) == 130
    written = 10 if len(signals) == 1 else 0
    assert f"klamm import: interrupted; {written} of the 25 ACLs" in capsys.readouterr().err
    assert store.tables.last_offset == written


def test_the_actor_is_who_imports(monkeypatch: pytest.MonkeyPatch, path: Path, store: FakeStore) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    assert main(["import", str(path)]) == 0
    assert [record.actor for record in store.tables.records] == ["Import:alice"]


@pytest.mark.parametrize("name", ["", "\udcff", None])
def test_who_has_no_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    def login() -> str:
        if name is None:
            raise KeyError
        return name

    monkeypatch.setattr("getpass.getuser", login)
    assert import_command._login() == str(os.getuid())


def test_json_has_the_same_and_what_was_passed_over(
    tmp_path: Path, store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "users.yaml"
    path.write_text(f"{USER}---\n{TOPIC}", encoding="utf-8")
    assert main(["import", str(path), "--output", "json", "--pass-over", "spec.x"]) == 0
    said = capsys.readouterr()
    body = json.loads(said.out)
    assert body.pop("seconds") >= 0
    assert body == {
        "created": 1,
        "already_there": 0,
        "changed": 0,
        "repeated": 0,
        "ended": 0,
        "token": f"{store.epoch}:1",
        "passed_over": {"KafkaTopic": 1},
        "of_other_clusters": {},
        "without_acls": [],
        "pass_over_in_no_file": ["spec.x"],
    }
    assert said.err == (
        "klamm import: passed over: 1 KafkaTopic\nklamm import: no file has what --pass-over names: spec.x\n"
    )
    assert main(["import", str(path)]) == 0
    assert capsys.readouterr().out.startswith("passed over: 1 KafkaTopic\ncreated: 0\nalready there: 1\n")


def test_what_is_wrong_comes_as_objects_with_json(
    path: Path, store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(f"{LINE}\nx\n", encoding="utf-8")
    assert main(["import", str(path), "--output", "json"]) == 2
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "problems": [
            {"file": str(path), "line": 2, "field": None, "message": "not JSON: Expecting value (column 1)"},
        ],
        "more_problems": False,
    }
    assert f"\n{path}:2: not JSON" in said.err
    assert store.batches == []


def test_a_file_of_another_cluster_imports_nothing(
    tmp_path: Path, store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "users.yaml"
    path.write_text(USER.replace("name: shop", "name: shop\n  labels: {strimzi.io/cluster: try}"), encoding="utf-8")
    assert main(["import", str(path), "--of-cluster", "live"]) == 2
    assert "holds no ACLs of `live` (left out, of other clusters: 1 of try)" in capsys.readouterr().err
    assert store.batches == []
    assert main(["import", str(path), "--of-cluster", "try"]) == 0


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--pass-over", ""], '--pass-over: `""` is not the place of a field'),
        (["--pass-over", "spec..x"], "--pass-over: `spec..x` is not the place of a field"),
        (["--pass-over", "spec. .x"], "is not the place of a field"),
        (["--pass-over", "spec.\x1b[2J"], r'`"spec.\u001b[2J"` is not the place of a field'),
        (["--of-cluster", ""], '--of-cluster: `""` is not a cluster'),
        (["--of-cluster", "/live"], "--of-cluster: `/live` is not a cluster"),
        (["--of-cluster", "  "], "is not a cluster"),
        (["--pass-ovr", "x"], "there is no `--pass-ovr`; did you mean --pass-over?"),
        (["--of-clusters", "x"], "there is no `--of-clusters`; did you mean --of-cluster?"),
    ],
)
def test_a_flag_that_says_nothing_is_refused(
    path: Path, flags: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["import", str(path), *flags])
    assert refused.value.code == 2
    assert told in capsys.readouterr().err


def test_timeouts_are_told_as_the_stores(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(self: Importer, _: object) -> None:
        raise TimeoutError(self)

    monkeypatch.setattr(Importer, "run", run)
    assert main(["import", str(path)]) == 1
    assert capsys.readouterr().err.startswith(
        "klamm import: database `127.0.0.1:1/klamm`, user `klamm`: PostgreSQL does not answer in time; 0 of the 2 ACLs"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--as", "User:a"], "these need --klamm; name the service"),
        (["--token-file", "x"], "these need --klamm; name the service"),
        (
            ["--klamm", "http://127.0.0.1:1", "--as", "User:a", "--actor", "User:b"],
            "--actor: a service records the caller",
        ),
        (["--klamm", "http://127.0.0.1:1", "--as", "User:a", "--data-dir", "x"], "--data-dir: a service has its own"),
        (["--klamm", "http://127.0.0.1:1"], "no principal is given;"),
    ],
)
def test_flags_that_do_not_go_together_are_told(
    arguments: list[str], told: str, path: Path, store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(path), *arguments]) == 2
    assert told in capsys.readouterr().err
    assert store.batches == []


def test_an_unknown_format_is_told_with_those_there_are(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(path), "--format", "xml"]) == 2
    assert "`xml` is not a format; the formats are klamm, rpk, confluent, csv, kafka-acls, " in capsys.readouterr().err


def test_any_format_is_imported_by_its_content_or_by_name(path: Path, store: FakeStore) -> None:
    path.write_text("User:a,TOPIC,LITERAL,t,READ,ALLOW,*\nUser:a,TOPIC,LITERAL,t,READ,DENY,*\n", encoding="utf-8")
    assert main(["import", str(path)]) == 2
    assert main(["import", str(path), "--format", "csv"]) == 0
    assert [each.acl.binding.permission_type.name for batch in store.batches for each in batch.values()] == [
        "DENY",
        "ALLOW",
    ]
    header = "Principal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host\n"
    path.write_text(header + "User:CN=a,O=b,TOPIC,LITERAL,t,READ,ALLOW,*\n", encoding="utf-8")
    assert main(["import", str(path)]) == 0
    assert [each.acl.binding.principal for each in store.batches[-1].values()] == ["User:CN=a,O=b"]


def test_what_is_probably_meant_otherwise_is_told_of_an_import_over_http(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acl = {"resource_type": "TOPIC", "resource_name": "pii-*", "principal": "User:a", "operation": "READ"}
    file = tmp_path / "acls.jsonl"
    file.write_text(
        "".join(json.dumps({**acl, "principal": f"User:{name}", "permission_type": "ALLOW"}) + "\n" for name in "ab")
    )
    created = {"created": True, "id": "00000000-0000-0000-0000-000000000001", "code": "NONE"}
    with ScriptedServer(reply(results=[created, created], token="e:2")) as server:
        assert main(["import", str(file), "--klamm", server.url, "--as", "User:admin", "--quiet"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("created: 2\nalready there: 0\n")
    (line,) = told.err.splitlines()
    assert line.startswith("klamm import: warning: `pii-*` with the pattern type LITERAL matches only this exact name")
    assert line.endswith("(ALLOW User:a from * READ on TOPIC LITERAL pii-* and 1 ACL more)")
