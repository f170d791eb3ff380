"""The decision log's lines, its bound, its sample, and what becomes of them while the disk is full."""

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec import UNSET

from app.core.image import AuthorizerImage
from app.core.kafka.configs import AuthorizerConfig
from app.core.verdicts import Verdict
from app.logs import lines as lines_log
from app.logs.decision_files import DecisionFiles, FileBounds
from app.logs.decision_log import Asker, Decided, DecisionLog, Position
from app.metrics.declared import Metrics
from tests.klamm import wait_until

EPOCH = UUID(int=7)
POSITION = Position(str(EPOCH), 12)
ALICE = Asker("User:alice", "10.1.2.3", client_id=None)
ACL_ID = UUID("0af76519-16cd-43dd-8448-eb211c80319c")
KEYS = [
    *("time", "epoch", "offset", "principal", "host", "listener_name", "security_protocol", "request_type"),
    *("request_version", "client_id", "correlation_id", "caller"),
    *("operation", "resource_type", "resource_name", "result", "rule", "acl_id", "sampled"),
]


@dataclass
class Read:
    """An action."""

    resource_name: str
    operation: str = "READ"
    resource_type: str = "TOPIC"


def decided(*names: str, asker: Asker = ALICE, verdict: Verdict = Verdict.DEFAULT_DENY) -> Decided:
    return Decided(POSITION, asker, [Read(name) for name in names], [verdict] * len(names), [None] * len(names))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def make(tmp_path: Path, metrics: Metrics) -> Iterator[Callable[..., DecisionLog]]:
    """Makes a log in the folder `log`; whatever was made is closed after the test."""
    made = []
    folder = tmp_path / "log"
    folder.mkdir()

    def make(*, rotate_bytes: int = 1 << 20, **more: Any) -> DecisionLog:  # noqa: ANN401 - keywords of DecisionLog
        bounds = FileBounds(folder=folder, rotate_bytes=rotate_bytes, rotate_s=60, retention_bytes=1 << 30)
        log = DecisionLog(DecisionFiles(bounds, metrics), metrics, **{"linger_s": 0.001, **more})
        made.append(log)
        return log

    yield make
    for log in made:
        log.close(60)


def closed(log: DecisionLog) -> None:
    log.start()
    log.close(60)


def raw(folder: Path) -> str:
    """All that was written, file after file."""
    return "".join(each.read_bytes().decode() for each in sorted(folder.glob("log/decisions-*.jsonl")))


def lines(folder: Path) -> list[dict[str, Any]]:
    text = raw(folder)
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def written(folder: Path) -> list[str]:
    return [line["resource_name"] for line in lines(folder)]


def test_a_line_says_who_asked_for_what_and_why_it_was_so(tmp_path: Path, make: Callable[..., DecisionLog]) -> None:
    log = make()
    asker = Asker("User:alice", "10.1.2.3", "CLIENT", "SASL_SSL", 1, 17, "app-1", -(2**31), "sidecar")
    actions = [Read("orders"), Read("g", "DESCRIBE", "GROUP")]
    log.take(Decided(POSITION, asker, actions, [Verdict.ALLOWED_BY_ACL, Verdict.DEFAULT_DENY], [ACL_ID.bytes, None]))
    closed(log)
    first, second = lines(tmp_path)
    assert list(first) == KEYS
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first.pop("time"))
    assert first == {
        "epoch": str(EPOCH), "offset": 12, "principal": "User:alice", "host": "10.1.2.3", "listener_name": "CLIENT",
        "security_protocol": "SASL_SSL", "request_type": 1, "request_version": 17, "client_id": "app-1",
        "correlation_id": -(2**31), "caller": "sidecar", "operation": "READ", "resource_type": "TOPIC",
        "resource_name": "orders", "result": "ALLOWED", "rule": "MatchingAcl", "acl_id": str(ACL_ID), "sampled": 1.0,
    }  # fmt: skip
    assert (second["operation"], second["resource_type"], second["resource_name"]) == ("DESCRIBE", "GROUP", "g")
    assert (second["result"], second["rule"], second["acl_id"]) == ("DENIED", "DefaultDeny", None)


@pytest.mark.parametrize("absent", [UNSET, None])
def test_what_was_not_said_is_null(absent: Any, tmp_path: Path, make: Callable[..., DecisionLog]) -> None:  # noqa: ANN401 - UNSET
    log = make()
    log.take(decided("orders", asker=Asker("User:a", "::1", absent, absent, absent, absent, absent, absent)))
    closed(log)
    [line] = lines(tmp_path)
    assert [line[key] for key in KEYS[5:12]] == [None] * 7


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_rule_has_its_word(verdict: Verdict, tmp_path: Path, make: Callable[..., DecisionLog]) -> None:
    log = make()
    log.take(decided("orders", verdict=verdict))
    closed(log)
    [line] = lines(tmp_path)
    assert (line["result"], line["rule"]) == (verdict.result.value, verdict.rule.value)


def test_before_the_first_load_there_is_no_epoch() -> None:
    assert Position.of(AuthorizerImage.empty(AuthorizerConfig())) == ("", -1)


@pytest.mark.parametrize(
    "name",
    ["a\nb", "\r", '"', "\\", '\\"', "\\u000a", "\x01", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u2029", "\u202e",
     "\u200b", "\ufeff", "e\u0301", "\xe9", "\u65e5\u672c", "\U0001f600", "\U000e0001", '","result":"ALLOWED',
     "\n" * 32_767, '"' * 32_767, "\U0001f600" * 8_191],
)  # fmt: skip
def test_every_name_comes_back_as_it_was_on_one_line(
    name: str, tmp_path: Path, make: Callable[..., DecisionLog]
) -> None:
    log = make()
    log.take(decided(name, asker=Asker(f"User:{name}", "10.1.2.3", name, name, client_id=name, caller="me")))
    closed(log)
    assert len(raw(tmp_path).splitlines()) == 1
    [line] = lines(tmp_path)
    assert [line[key] for key in ("principal", "listener_name", "security_protocol", "client_id", "resource_name")] == [
        f"User:{name}", name, name[:32], name, name,
    ]  # fmt: skip


def test_what_waits_at_close_is_written_in_order_over_many_files(
    tmp_path: Path, metrics: Metrics, make: Callable[..., DecisionLog]
) -> None:
    log = make(rotate_bytes=5_000, linger_s=60)
    log.start()
    names = [f"t{number}" for number in range(2_500)]
    log.take(decided(*names[:1_000]))
    for name in names[1_000:1_500]:
        log.take(decided(name))
    log.take(decided())
    log.take(decided(*names[1_500:]))
    log.close(60)
    assert written(tmp_path) == names
    assert len(list((tmp_path / "log").iterdir())) > 10
    assert metrics.decision_log_lines == 2_500
    assert metrics.decision_log_bytes == len(raw(tmp_path).encode())
    assert metrics.decision_log_dropped == {"buffer": 0, "disk": 0}


def test_lines_can_be_read_before_the_file_is_closed(tmp_path: Path, make: Callable[..., DecisionLog]) -> None:
    log = make()
    log.start()
    log.take(decided("orders"))
    wait_until(lambda: any(b"orders" in each.read_bytes() for each in tmp_path.glob("log/_decisions-*.jsonl")))


def test_requests_without_room_are_dropped_whole_and_counted(
    tmp_path: Path, metrics: Metrics, make: Callable[..., DecisionLog]
) -> None:
    log = make(capacity=3_000)
    for number in range(10):
        log.take(decided(f"a{number}", f"b{number}"))
    closed(log)
    names = written(tmp_path)
    assert names == [name for number in range(len(names) // 2) for name in (f"a{number}", f"b{number}")]
    assert 0 < metrics.decision_log_lines < 20
    assert metrics.decision_log_dropped == {"buffer": 20 - metrics.decision_log_lines, "disk": 0}


@pytest.mark.parametrize(
    "asker",
    [Asker("x" * 3_000, "::1"), Asker("x", "::1", listener_name="\U0001f600" * 800)],
)
def test_long_names_count_against_the_bound(asker: Asker, metrics: Metrics, make: Callable[..., DecisionLog]) -> None:
    log = make(capacity=3_000)
    log.take(decided("orders", asker=asker))
    assert metrics.decision_log_dropped["buffer"] == 1


def test_room_comes_back_once_lines_are_written(metrics: Metrics, make: Callable[..., DecisionLog]) -> None:
    log = make(capacity=1_200)
    log.start()
    for number in range(1, 4):
        log.take(decided("orders"))
        wait_until(lambda wanted=number: metrics.decision_log_lines == wanted)  # type: ignore[misc]  # a default
    assert metrics.decision_log_dropped["buffer"] == 0


def test_what_comes_after_the_close_is_counted_as_dropped(metrics: Metrics, make: Callable[..., DecisionLog]) -> None:
    log = make()
    closed(log)
    log.take(decided("a", "b"))
    assert metrics.decision_log_dropped["buffer"] == 2


def test_a_sample_is_drawn_request_by_request(tmp_path: Path, make: Callable[..., DecisionLog]) -> None:
    log = make(sample=0.25)
    draws = iter([0.1, 0.25, 0.9, 0.2])
    log._draw = lambda: next(draws)
    for number in range(4):
        if log.wants_next():
            log.take(decided(f"a{number}", f"b{number}"))
    closed(log)
    assert written(tmp_path) == ["a0", "b0", "a3", "b3"]
    assert {line["sampled"] for line in lines(tmp_path)} == {0.25}


def test_a_sample_has_about_its_share_and_all_is_all(make: Callable[..., DecisionLog]) -> None:
    tenth, everything = make(sample=0.1), make()
    assert 700 < sum(tenth.wants_next() for _ in range(10_000)) < 1_300
    assert all(everything.wants_next() for _ in range(1_000))


# the disk


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_log, "_FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(lines_log, "_LAST_RETRY_S", 0.02)


@pytest.mark.usefixtures("impatient")
def test_lines_wait_while_the_folder_is_gone_and_are_written_when_it_is_back(
    tmp_path: Path, metrics: Metrics, make: Callable[..., DecisionLog], caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "log"
    log = make(capacity=4_000)
    folder.rename(tmp_path / "away")
    folder.write_text("a file")
    log.start()
    log.take(decided("waits"))
    wait_until(lambda: metrics.decision_log_faults > 5)
    assert caplog.messages.count("decision_log_not_writable") == 1
    for _ in range(10):
        log.take(decided("x" * 1_000))
    assert metrics.decision_log_dropped["disk"] > 0
    assert metrics.decision_log_dropped["buffer"] == 0
    folder.unlink()
    (tmp_path / "away").rename(folder)
    wait_until(lambda: "decision_log_writable_again" in caplog.messages)
    log.take(decided("after"))
    log.close(60)
    names = written(tmp_path)
    assert (names[0], names[-1]) == ("waits", "after")
    assert len(names) + metrics.decision_log_dropped["disk"] == 12


@pytest.mark.usefixtures("impatient")
def test_what_can_not_be_written_at_the_end_is_counted_and_told(
    tmp_path: Path, metrics: Metrics, make: Callable[..., DecisionLog], caplog: pytest.LogCaptureFixture
) -> None:
    log = make()
    (tmp_path / "log").rmdir()
    (tmp_path / "log").touch()
    log.take(decided("a", "b"))
    with caplog.at_level(logging.ERROR):
        closed(log)
    assert metrics.decision_log_dropped == {"buffer": 0, "disk": 2}
    assert caplog.messages.count("decision_log_lines_lost") == 1


def test_waiting_for_a_disk_is_not_busy(
    tmp_path: Path, metrics: Metrics, make: Callable[..., DecisionLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one attempt to the next it takes longer, up to the bound, and never a moment only."""
    waits = []

    class Waiting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            if len(waits) == 12:
                self.set()
            return self.is_set()

    log = make()
    monkeypatch.setattr(log, "_closing", Waiting())
    (tmp_path / "log").rmdir()
    (tmp_path / "log").touch()
    log._pending.append((0.0, decided("a"), 1, 0))
    log._run()
    assert waits[0] is not None
    bounds = [min(0.5 * 2**number, 30.0) for number in range(12)]
    assert all(bound / 2 <= (wait or 0) <= bound for wait, bound in zip(waits, bounds, strict=False))
    assert metrics.decision_log_dropped["disk"] == 1


def test_a_log_that_never_started_closes(make: Callable[..., DecisionLog]) -> None:
    make().close()
