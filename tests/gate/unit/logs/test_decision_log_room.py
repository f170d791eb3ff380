"""What the decision log takes: long texts that a request's actions share once for many, within the room counted."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.verdicts import Verdict
from app.logs.decision_files import DecisionFiles, FileBounds
from app.logs.decision_log import Asker, Decided, DecisionLog, Position
from app.metrics.declared import Metrics
from tests.budgets import budget

POSITION = Position(str(UUID(int=7)), (1 << 63) - 1)
ACL_ID = UUID("0af76519-16cd-43dd-8448-eb211c80319c").bytes
LONGEST = "User:" + "x" * 32_762
ESCAPED = "User:" + "\x7f" * 32_762


@dataclass
class Action:
    """In the words of a request, the longest."""

    resource_name: str
    operation: str = "DESCRIBE_CONFIGS"
    resource_type: str = "TRANSACTIONAL_ID"


def decided(
    principal: str, names: list[str], *, client_id: str | None = "app-1", groups: Sequence[str] = ()
) -> Decided:
    texts = client_id, client_id, -32_768, -32_768, client_id, -(2**31)
    asker = Asker(principal, "10.1.2.3", *texts, "sidecar", groups)
    verdicts = [Verdict.DEFAULT_DENY if at % 2 else Verdict.ALLOWED_BY_ACL for at, _ in enumerate(names)]
    acl_ids = [None if at % 2 else ACL_ID for at, _ in enumerate(names)]
    return Decided(POSITION, asker, [Action(name) for name in names], verdicts, acl_ids)


def made(folder: Path, metrics: Metrics) -> DecisionLog:
    bounds = FileBounds(folder=folder, rotate_bytes=1 << 30, rotate_s=60, retention_bytes=1 << 30)
    return DecisionLog(DecisionFiles(bounds, metrics), metrics, sample=1 / 3, linger_s=0.001)


def lines(folder: Path, *requests: Decided) -> list[bytes]:
    """What is written of these; the folder is empty then."""
    log = made(folder, Metrics())
    for each in requests:
        log.take(each)
    log.start()
    log.close(60)
    written = b"".join(each.read_bytes() for each in sorted(folder.iterdir()))
    for file in folder.iterdir():
        file.unlink()
    return written.splitlines(keepends=True)


def rows(written: list[bytes]) -> list[dict[str, Any]]:
    """As the pipeline reads them."""
    from app.pipeline.history.decision_lines import LineFault, parse_line
    from app.pipeline.history.schemas import DECISIONS

    found = []
    for each in written:
        read = parse_line(each.removesuffix(b"\n"))
        assert not isinstance(read, LineFault), read
        found += [dict(zip(DECISIONS.fieldNames(), row, strict=True)) for row in read]
    return found


@pytest.mark.parametrize("principal", [LONGEST, ESCAPED])
def test_a_thousand_decisions_about_the_longest_principal_name_it_now_and_then(tmp_path: Path, principal: str) -> None:
    names = [f"t{at}" for at in range(1_000)]
    written = lines(tmp_path, decided(principal, names))
    assert sum(map(len, written)) < 1_000 * 256 + 12 * 6 * 33_000
    read = rows(written)
    assert [each["resource_name"] for each in read] == names
    assert {(each["principal"], each["client_id"], each["host"]) for each in read} == {(principal, "app-1", "10.1.2.3")}
    assert [(each["rule"], each["acl_id"] is None) for each in read[:2]] == [
        ("MatchingAcl", False), ("DefaultDeny", True),
    ]  # fmt: skip


def test_the_keys_of_a_list_stand_in_the_order_of_those_of_a_line(tmp_path: Path) -> None:
    [ordinary] = lines(tmp_path, decided("User:a", ["t"]))
    [shared] = lines(tmp_path, decided(LONGEST, ["t", "u"]))
    first = json.loads(shared)
    assert list(first) == [*list(json.loads(ordinary))[:12], "actions", "sampled"]
    assert [list(each) for each in first["actions"]] == [list(json.loads(ordinary))[12:18]] * 2


@pytest.mark.parametrize(("principal", "count"), [("User:" + "x" * 600, 3), (LONGEST, 1)])
def test_ordinary_principals_and_single_actions_have_a_line_an_action(
    tmp_path: Path, principal: str, count: int
) -> None:
    written = lines(tmp_path, decided(principal, ["t"] * count))
    assert len(written) == count
    assert all("actions" not in json.loads(each) for each in written)


def test_no_line_gets_longer_than_the_pipeline_reads(tmp_path: Path) -> None:
    from app.pipeline.history.decision_lines import MAX_LINE_BYTES

    names = [f"{at}" + "\x7f" * 6_000 for at in range(100)]
    written = lines(tmp_path, decided(ESCAPED, names, client_id="\x7f" * 32_767))
    assert max(map(len, written)) <= MAX_LINE_BYTES
    assert [each["resource_name"] for each in rows(written)] == names


@pytest.mark.parametrize("groups", [["a", 'b"\n'], ["\x7f" * 255] * 200])
def test_groups_are_in_each_line(tmp_path: Path, groups: list[str]) -> None:
    from app.pipeline.history.decision_lines import MAX_LINE_BYTES

    written = lines(tmp_path, decided("User:a", ["t"] * 50, groups=groups))
    assert len(written) == (50 if len(groups) < 200 else 1)
    assert max(map(len, written)) <= MAX_LINE_BYTES
    assert all(json.loads(each)["groups"] == groups for each in written)
    assert [each["resource_name"] for each in rows(written)] == ["t"] * 50


NAMES = st.one_of(
    st.text(max_size=40),
    st.builds(
        lambda letter, count: letter * count, st.sampled_from('x\xe9\x7f"\u65e5\U0001f600\x00'), st.integers(0, 9_000)
    ),
).map(lambda text: text.encode("utf-8", "ignore").decode())


@settings(max_examples=budget("law of several steps"), suppress_health_check=list(HealthCheck))
@given(principal=NAMES, name=NAMES, count=st.sampled_from([1, 2, 99, 101, 1_000]), before=st.integers(0, 99))
def test_no_lines_take_more_room_than_was_counted(
    tmp_path: Path, principal: str, name: str, count: int, before: int
) -> None:
    from app.pipeline.history.decision_lines import LineFault, parse_line

    # What comes before may end what is written at once in the middle of this.
    groups = [name[:255]] * (before % 5)
    ahead = decided("User:a", ["t"] * before)
    asked = decided(principal, [name] * count, client_id=name[:1_000], groups=groups)
    written = sum(map(len, lines(tmp_path, ahead, asked))) - sum(map(len, lines(tmp_path, ahead)))
    log = made(tmp_path, Metrics())
    log.take(asked)
    assert written <= log._size_in
    assert all(not isinstance(parse_line(each), LineFault) for each in lines(tmp_path, asked) if len(each) < 1 << 20)


def test_the_room_of_ordinary_lines_is_nearly_what_they_take(tmp_path: Path) -> None:
    asked = decided("User:alice", ["orders"] * 100)
    log = made(tmp_path, Metrics())
    log.take(asked)
    written = sum(map(len, lines(tmp_path, asked)))
    assert written <= log._size_in < 2 * written


def test_what_a_request_takes_more_than_once_is_counted_so(tmp_path: Path) -> None:
    metrics = Metrics()
    log = made(tmp_path, metrics)
    for _ in range(300):
        log.take(decided("User:" + "x" * 900, ["t"] * 100))
    assert metrics.decision_log_dropped["buffer"] > 0
    log.start()
    log.close(60)
    assert metrics.decision_log_bytes <= 16 * 1024 * 1024
