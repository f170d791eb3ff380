"""The decision log of the broker's own authorizer: the pipeline reads its lines as it reads the service's."""

import json
import shutil
from pathlib import Path

from app.pipeline.history.decision_lines import DecisionRow, LineFault, parse_line
from app.pipeline.history.schemas import DECISIONS
from tests.klamm import SUPER_USER, Json, acl, over_socket
from tests.proof.kafka.authorizer import Authorizer, Host

_ODD = 'odd "\\ \u2028\u202e\x1b[31m name é \U0001f600'
_QUIET = "told-what-it-might-do"
_MANY = 300
_OWN = {"time", "caller"}
"""Columns that tell the broker from the service."""


def _lines(folder: Path) -> list[Json]:
    return [
        json.loads(line) for file in sorted(folder.glob("decisions-*.jsonl")) for line in file.read_text().splitlines()
    ]


def _rows(folder: Path) -> list[DecisionRow]:
    """What the pipeline reads."""
    rows: list[DecisionRow] = []
    for file in folder.glob("decisions-*.jsonl"):
        for raw in file.read_bytes().splitlines():
            read = parse_line(raw)
            assert not isinstance(read, LineFault), (read, raw)
            rows += read
    return rows


def _without_own(rows: list[DecisionRow]) -> set[DecisionRow]:
    names = DECISIONS.fieldNames()
    return {tuple(value for name, value in zip(names, row, strict=True) if name not in _OWN) for row in rows}


def test_the_pipeline_reads_what_a_broker_decides_as_what_the_service_does(
    authorizer: Authorizer, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "broker", tmp_path / "service"
    service = over_socket(
        "--port", "0", "--data-dir", str(tmp_path / "data"), settings={"KLAMM_DECISION_LOG_PATH": str(theirs)}
    )
    settings = {
        "klamm_decision_log_path": str(ours),
        "super_users": SUPER_USER,
        "node_id": "7",
    }
    with service.ready():
        service.create(
            acl("a"),
            acl("p", pattern_type="PREFIXED"),
            acl("p", pattern_type="PREFIXED", host="::1"),
            acl("no", "User:*", permission_type="DENY"),
            acl(_ODD),
        )
        asked = {"names": ["a", "pp", "no", "other", _ODD], "host": "::1"}
        with Host(authorizer, tmp_path, klamm_urls=service.url, **settings) as host:
            host.becomes("a", "ALLOWED")
            for principal in ("User:alice", SUPER_USER, "User:" + _ODD):
                first = host.do("ask", principal=principal, **asked)
                assert all(host.do("ask", principal=principal, **asked) == first for _ in range(4))
                actions = [
                    {"operation": "READ", "resource_type": "TOPIC", "resource_name": name} for name in asked["names"]
                ]
                context = {
                    "principal": principal,
                    "client_address": "::1",
                    "listener_name": "CLIENT",
                    "security_protocol": "PLAINTEXT",
                    "request_type": 1,
                    "request_version": 1,
                    "client_id": "client",
                    "correlation_id": 1,
                }
                service.post("/v1/authorize", {"context": context, "actions": actions})
            host.do("ask", names=[_QUIET], audited=False)
            assert not list(ours.iterdir()), "lines are summed for a minute"
            figures = json.loads(host.do("metrics"))
            assert host.ended() == "[]"
    read = _rows(ours)
    names = DECISIONS.fieldNames()
    of_host = [row for row in read if row[names.index("host")] == "0:0:0:0:0:0:0:1"]
    assert _without_own(of_host) == _without_own(_rows(theirs))
    assert len(of_host) == len(asked["names"]) * 3
    assert {line["count"] for line in _lines(ours) if line["host"] != "127.0.0.1"} == {5}
    assert {line["caller"] for line in _lines(ours)} == {"kafka-node-7"}
    assert _QUIET not in str(read)
    assert (
        figures["authorization-request-total"]
        == figures["authorization-allowed-total"] + figures["authorization-denied-total"]
    )
    assert figures["acls-total-count"] == len(asked["names"])
    assert figures["replica-age-ms"] >= 0
    assert figures["decisions-not-logged-total"] == 0


def test_what_the_disk_does_not_take_is_counted_and_nothing_waits_for_it(
    authorizer: Authorizer, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with over_socket("--port", "0", "--data-dir", str(tmp_path / "data")).ready() as service:
        service.create(acl("a"))
        with Host(authorizer, tmp_path, klamm_urls=service.url, klamm_decision_log_path=str(log)) as host:
            host.becomes("a", "ALLOWED")
            shutil.rmtree(log)
            assert host.reads("a") == "ALLOWED"
            assert host.ended() == "[]"
            assert not log.exists(), "a disk may belong there"


def test_old_files_are_deleted_beyond_a_bound_and_the_newest_never(authorizer: Authorizer, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    for number in range(3):
        (log / f"decisions-20200101T00000{number}.000000Z-1-1.jsonl").write_text("x" * 4_000)
    (log / "someone-else.txt").write_text("x" * 9_000)
    settings = {"klamm_decision_log_path": str(log), "klamm_decision_log_retention_bytes": "10000"}
    with over_socket("--port", "0", "--data-dir", str(tmp_path / "data")).ready() as service:
        service.create(acl("a"))
        with Host(authorizer, tmp_path, klamm_urls=service.url, **settings) as host:
            host.becomes("a", "ALLOWED")
            for number in range(_MANY):
                host.reads(f"topic-{number}")
            assert host.ended() == "[]"
    kept = sorted(each.name for each in log.iterdir())
    assert len(_lines(log)) == _MANY + 1
    assert kept[-1] == "someone-else.txt"
    assert len(kept) == 2, kept
