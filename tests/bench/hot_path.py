"""Sections `http` and `batch`: authorize over HTTP, beside an empty ASGI route in the same run."""

import gc
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.bench import messages
from tests.bench.load import TOKEN, generator, one_by_one, post, saturate
from tests.bench.processes import RunQueue, Served, bench_server, cpu_s
from tests.bench.report import Row, Section, Table, percentile, prose
from tests.bench.server import DECISION_LOG
from tests.bench.workload import Question, Workload, batches, realistic

_CONNECTIONS = 64
_ROUNDS, _QUICK_ROUNDS = 7, 3
_ROUND_S, _QUICK_ROUND_S = 2.0, 0.5
_BUSY_ENOUGH = 0.9
_ACTIONS = 50
_ACTIONS_AT_ONCE = 1_000
_WHY_FEWER = "some thousand decisions more at once are refused as overload"
_TOPICS, _TOPIC_ACLS = 504, 7_000
_YARDSTICK = "empty route"
_METHOD = prose(
    """
    CPU time of the whole server process (user and system, all threads, audit's too) divided by the requests
    answered. Replica and empty route serve in the same run, on the same core, in alternating rounds under the
    same load: 64 connections kept alive, each with one request under way, from the other core; the first round
    of each is not counted. The empty route is a bare ASGI callable on uvicorn with uvloop and httptools that
    reads the body and answers the same bytes. The replica is all of Klamm except that its ACLs come from
    memory; audit is at its default level (INFO: denials are written, to /dev/null), metrics are on, and each
    request has all optional fields. About half of the answers are ALLOWED, a quarter of the actions name
    unknown topics.
    """
)


class Pace(NamedTuple):
    """How many rounds of which length."""

    rounds: int
    seconds: float

    @staticmethod
    def of(*, quick: bool) -> "Pace":
        return Pace(_QUICK_ROUNDS, _QUICK_ROUND_S) if quick else Pace(_ROUNDS, _ROUND_S)


class Measured(NamedTuple):
    """CPU microseconds a request, round by round, and the share of a core that the servers used meanwhile."""

    ours: list[float]
    yardstick: list[float]
    busy: list[float]


def http(*, quick: bool) -> Section:
    """One decision a request."""
    pace = Pace.of(quick=quick)
    costs, waits = [], []
    for size in (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000):
        bodies = _bodies(realistic(size), lambda workload: [[each] for each in workload.questions(20_000)])
        with bench_server("empty_route") as yardstick, bench_server("server", str(size)) as ours:
            measured = _alternate(ours, yardstick, bodies, pace)
            waits += _latencies(size, ours, yardstick, bodies)
        shape = f"one decision a request, {size:,} ACLs"
        costs.append(
            Row(shape, "us CPU a request", *measured[:2], bar=1.25, goal=1.15, of_ratio=True, note=_note(measured))
        )
    checked = [_checked(pace)]
    remarks = [f"Load: {generator()}. The share of a core that the servers used tells whether it kept them busy."]
    return Section(
        "http",
        _METHOD,
        [
            Table("One decision a request over HTTP", costs, _YARDSTICK, remarks),
            Table("What it costs to check a token with each request", checked),
            Table("The time one caller waits, one connection kept alive, one request at a time", waits, _YARDSTICK),
        ],
    )


def _checked(pace: Pace) -> Row:
    """What a request costs more where its token is checked, and its principal held against the caller's patterns."""
    size = 10_000
    bodies = _bodies(realistic(size), lambda workload: [[each] for each in workload.questions(20_000)])
    with bench_server("server", str(size)) as open_to_all, bench_server("server", str(size), TOKEN) as guarded:
        measured = _alternate(guarded, open_to_all, bodies, pace)
    more = [ours - others for ours, others in zip(*measured[:2], strict=True)]
    return Row(f"a token, {size:,} ACLs", "us CPU a request", more, bar=10, note=_note(measured))


def _alone(workload: Workload) -> list[list[Question]]:
    return [[each] for each in workload.questions(20_000)]


def _many(workload: Workload) -> list[list[Question]]:
    return batches(workload, 400, _ACTIONS)


def decision_log(*, quick: bool) -> Section:
    """What a request costs more where every decision is logged."""
    pace = Pace.of(quick=quick)
    size = 10_000
    rows = []
    for actions in (1, _ACTIONS):
        bodies = _bodies(realistic(size), _alone if actions == 1 else _many)
        with (
            bench_server("server", str(size)) as without,
            bench_server("server", str(size), DECISION_LOG) as logging,
        ):
            connections = _CONNECTIONS if actions == 1 else _connections(actions) // 4
            measured = _alternate(logging, without, bodies, pace, connections)
        shape = f"{actions} decision{'s' if actions > 1 else ''} a request, {size:,} ACLs"
        rows.append(Row(shape, "us CPU a request", *measured[:2], note=_note(measured)))
    title = "Every decision in the decision log, beside the same service without one"
    few = _connections(_ACTIONS) // 4
    method = f"{_METHOD} Here a replica without a decision log stands in for the route. Batches on {few} connections."
    return Section("decision-log", method, [Table(title, rows, "without")])


def batch(*, quick: bool) -> Section:
    """Many decisions a request."""
    pace = Pace.of(quick=quick)
    rows = []
    for size in (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000):
        measured = _batches(size, 400, _ACTIONS, pace)
        each = [cost / _ACTIONS for cost in measured.ours]
        rows.append(
            Row(f"batch of {_ACTIONS}, {size:,} ACLs", "us CPU a decision", each, bar=4, goal=2.5, note=_note(measured))
        )
    measured = _batches(_TOPIC_ACLS, 60, _TOPICS, pace)
    each = [cost / 1_000 for cost in measured.ours]
    rows.append(Row(f"batch of {_TOPICS}, {_TOPIC_ACLS:,} ACLs", "ms CPU a request", each, bar=3, note=_note(measured)))
    fewer = f"{_connections(_ACTIONS)} and {_connections(_TOPICS)}"
    method = f"{_METHOD} The actions of a batch are one caller's. Batches come on {fewer} connections: {_WHY_FEWER}."
    return Section("batch", method, [Table("Batches over HTTP", rows, remarks=[f"Load: {generator()}."])])


def _batches(size: int, count: int, actions: int, pace: Pace) -> Measured:
    bodies = _bodies(realistic(size), lambda workload: batches(workload, count, actions))
    with bench_server("empty_route") as yardstick, bench_server("server", str(size)) as ours:
        return _alternate(ours, yardstick, bodies, pace, _connections(actions))


def _connections(actions: int) -> int:
    return max(2, _ACTIONS_AT_ONCE // actions)


def _bodies(workload: Workload, ask: Callable[[Workload], Sequence[Sequence[Question]]]) -> list[bytes]:
    bodies = [messages.authorize(each) for each in ask(workload)]
    del workload
    # The load must not stop to look through what it keeps.
    gc.collect()
    gc.freeze()
    return bodies


def _alternate(
    ours: Served, yardstick: Served, bodies: Sequence[bytes], pace: Pace, connections: int = _CONNECTIONS
) -> Measured:
    costs: dict[int, list[float]] = {ours.pid: [], yardstick.pid: []}
    busy = []
    for at in range(pace.rounds + 1):
        for server in (yardstick, ours):
            with RunQueue(server.pid) as queue:
                used, had_s = cpu_s(server.pid), time.monotonic() - queue.waited_s()
                count = saturate(server.port, messages.AUTHORIZE, bodies, pace.seconds, connections)
                spent, had_s = cpu_s(server.pid) - used, time.monotonic() - queue.waited_s() - had_s
            if at:
                costs[server.pid].append(spent / count * 1e6)
                busy.append(spent / had_s)
    return Measured(costs[ours.pid], costs[yardstick.pid], busy)


def _note(measured: Measured) -> str:
    lowest = min(measured.busy)
    return f"server busy {lowest:.0%} or more" + ("" if lowest >= _BUSY_ENOUGH else ": not saturated")


def _latencies(size: int, ours: Served, yardstick: Served, bodies: Sequence[bytes]) -> list[Row]:
    requests = [post(messages.AUTHORIZE, body) for body in bodies[:2_000]]
    seen: dict[int, list[list[float]]] = {ours.pid: [], yardstick.pid: []}
    for _ in range(3):
        for server in (yardstick, ours):
            seen[server.pid].append([each * 1e6 for each in one_by_one(server.port, requests)])
    rows = []
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        mine, others = ([percentile(each, share) for each in seen[one.pid]] for one in (ours, yardstick))
        rows.append(Row(f"{name}, {size:,} ACLs", "us", mine, others))
    return rows
