"""Section `overload`: what 500 slow clients cost the others, and what becomes of three times too much."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import NamedTuple

from tests.bench import messages
from tests.bench.flood import Flood, Result, flooding
from tests.bench.load import closed_loop, connect, one_by_one, post, status_of
from tests.bench.processes import Served, bench_server, rss_bytes
from tests.bench.report import Row, Section, Table, percentile, prose
from tests.bench.workload import batches, realistic

_ACLS = 10_000
_ACTIONS = 300
_AT_ONCE = 6
_SLOW = 500
_TIMES = 3
_ROUNDS, _QUICK_ROUNDS = 5, 1
_ROUND_S, _QUICK_ROUND_S = 10.0, 3.0
_PROBE_EACH_S = 0.05
_PROBES = ("/livez", "/readyz", "/startupz", "/metrics")
_METHOD = f"""
    A replica with {_ACLS:,} ACLs on the first core, all load and the probes on the second. Slow clients: p99 of
    one decision a request on one connection, alone and beside {_SLOW} connections that have sent a part of a head
    (renewed each round, for they are cut off after 10 s). Overload: batches of {_ACTIONS:,} actions, so large that
    to read and refuse one does not by itself take a tenth of what to answer it takes. Capacity is what
    {_AT_ONCE} connections get answered in a closed loop, more of which would be refused; then {_TIMES} times as
    much is sent at fixed times over 512 connections by a process that does not wait for answers, and each probe is
    asked on a connection of its own every {_PROBE_EACH_S * 1_000:.0f} ms. Goodput counts what was answered with 200
    while that lasted. Time to refusal is from when the request was due, so the sender's own delays are in it; the
    server's share is from when it was sent, the server's waits for a core taken off. Memory is resident memory
    after the flood over that after a flood of what it can do on as many connections.
"""


class Flooded(NamedTuple):
    """One round."""

    capacity: float
    result: Result
    grown: float
    probes: list[int | None]


def overload(*, quick: bool) -> Section:
    """Slow clients, and too many requests."""
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    workload = realistic(_ACLS)
    single = [post(messages.AUTHORIZE, messages.authorize([each])) for each in workload.questions(2_000)]
    large = [post(messages.AUTHORIZE, messages.authorize(each)) for each in batches(workload, 50, _ACTIONS)]
    with bench_server("server", str(_ACLS)) as replica:
        slow = _beside_slow_clients(replica, single, rounds)
        seconds = _QUICK_ROUND_S if quick else _ROUND_S
        flooded = [_flooded(replica, large, seconds) for _ in range(rounds)]
    answered, refused = (sum(len(each.result.of(status)) for each in flooded) for status in (200, 429))
    well = "yes" if all(map(_is_well_formed, flooded)) else "**no**"
    remarks = [f"{answered:,} requests answered, {refused:,} refused; all of these with Retry-After: {well}"]
    return Section(
        "overload",
        prose(_METHOD),
        [Table("Slow clients", slow, "alone"), Table("Three times too much", _rows(flooded), remarks=remarks)],
    )


def _beside_slow_clients(replica: Served, requests: Sequence[bytes], rounds: int) -> list[Row]:
    alone, beside = [], []
    for _ in range(rounds):
        alone.append(_p99_us(replica, requests))
        with _slow_clients(replica):
            beside.append(_p99_us(replica, requests))
    return [Row(f"p99 beside {_SLOW} slow heads", "us", beside, alone, bar=1.25, of_ratio=True)]


def _p99_us(replica: Served, requests: Sequence[bytes]) -> float:
    return percentile(one_by_one(replica.port, requests), 0.99) * 1e6


@contextmanager
def _slow_clients(replica: Served) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(_SLOW):
            stack.enter_context(connect(replica.port)).sendall(b"POST /v1/authorize HTTP/1.1\r\nHost: ")
        # Taken in they are the moment that something behind them in the queue is answered.
        status_of(replica.port, "/livez")
        yield


def _flooded(replica: Served, requests: Sequence[bytes], seconds: float) -> Flooded:
    load = closed_loop(replica.port, cycle(requests).__next__, seconds, _AT_ONCE)
    capacity = load.answers / load.wall_s
    _flood(replica, requests, capacity * 0.8, seconds / 2)
    before = rss_bytes(replica.pid)
    result, probes = _flood(replica, requests, capacity * _TIMES, seconds)
    return Flooded(capacity, result, (rss_bytes(replica.pid) / before - 1) * 100, probes)


def _flood(
    replica: Served, requests: Sequence[bytes], per_second: float, seconds: float
) -> tuple[Result, list[int | None]]:
    probes: list[int | None] = []
    ended = threading.Event()

    def probe() -> None:
        for path in cycle(_PROBES):
            if ended.wait(_PROBE_EACH_S):
                return
            probes.append(status_of(replica.port, path))

    prober = threading.Thread(target=probe)
    prober.start()
    try:
        with flooding(Flood(replica.port, replica.pid, requests, per_second, seconds)) as flood:
            return flood.result(), probes
    finally:
        ended.set()
        prober.join()
        time.sleep(0.5)


def _is_well_formed(round_: Flooded) -> bool:
    outcomes = round_.result.outcomes
    return not round_.result.unanswered and all(
        each.status in (200, 429) and each.has_retry_after == (each.status == 429) for each in outcomes
    )


def _rows(flooded: Sequence[Flooded]) -> list[Row]:
    results = [each.result for each in flooded]
    return [
        Row("capacity", "requests/s", [each.capacity for each in flooded]),
        Row(
            "goodput of it",
            "share",
            [each.result.goodput / each.capacity for each in flooded],
            bar=0.9,
            at_least=True,
        ),
        Row("p99 of those answered", "ms", [percentile([o.latency for o in r.of(200)], 0.99) * 1e3 for r in results]),
        Row("time to refusal, p50", "ms", [each.refusal_ms(0.5) for each in results]),
        Row("time to refusal, p99", "ms", [each.refusal_ms(0.99) for each in results]),
        Row("the server's share of it, p99", "ms", [each.refusal_served_ms(0.99) for each in results], bar=20),
        Row("memory more than at 0.8 times capacity", "%", [each.grown for each in flooded], bar=10),
        Row(
            "probes answered with 200",
            "share",
            [each.probes.count(200) / len(each.probes) for each in flooded if each.probes],
            bar=1,
            at_least=True,
        ),
    ]
