"""Section `watch`: what 1,000 readers of the feed get, what each of them costs, and what decisions pay for them."""

import itertools
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from tests.bench import messages
from tests.bench.load import RefusedError, ask, connect, post
from tests.bench.open_loop import Plan, Summary, open_loop, sender
from tests.bench.postgres import Server
from tests.bench.processes import Served, cpu_s, klamm_serve, rss_bytes, wait_until_ready
from tests.bench.readers import Seen, readers
from tests.bench.report import Row, Section, Table, percentile, prose
from tests.bench.workload import Question

_READERS, _QUICK_READERS = 1_000, 200
_CHANGES, _QUICK_CHANGES = 300, 30
_SLOW_RATE, _FAST_RATE = 10, 1_000
_AT_ONCE = 50
"""Bindings a call where there are many changes."""
_ROUNDS, _QUICK_ROUNDS = 11, 1
_ROUND_S, _QUICK_ROUND_S = 3.0, 2.0
_ASKED_RATE = 500
_TOPICS = 2_000
_READY_WITHIN_S = 60.0
_SEEN_WITHIN_S = 20.0
_ACLS = "/v1/acls"
_READ = 3
_TOKEN = re.compile(rb'"token":"([^"]+)"')
_METHOD = f"""
    A real `klamm serve` on the embedded PostgreSQL with fsync on, on the first core; PostgreSQL, writer, readers
    and load on the second. {_READERS:,} streams of GET /v1/watch, unfiltered, are read by one process. Visible: a
    change is a createAcls call of one binding, {_SLOW_RATE} a second; what counts is from when it was sent to when
    the last of the readers has it. Memory: resident memory of the service with all streams open, and again after
    those changes, less that before them. Decisions: one decision a request, {_ASKED_RATE} a second at fixed times
    over 64 connections, from when each was due, by a process that goes before all others on its core (SCHED_FIFO,
    where that is allowed); rounds with {_FAST_RATE:,} changes a second ({_AT_ONCE} a call) and no reader, and with
    {_READERS:,} readers as well, in turn.
"""


def watch(server: Server, *, quick: bool) -> Section:
    with klamm_serve(server.new_store("watch")) as served, sender() as pool:
        wait_until_ready(served.port, _READY_WITHIN_S)
        writer = _Writer(served.port)
        writer.write(_TOPICS)
        count = _QUICK_READERS if quick else _READERS
        tables = [
            Table("A change, to all readers", _visible(served, writer, count, _QUICK_CHANGES if quick else _CHANGES)),
            _decisions(served, writer, pool, count, quick=quick),
        ]
    return Section("watch", prose(_METHOD), tables)


class _Writer:
    """Creates ACLs, one after the other or some at once."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._numbers = itertools.count()
        self.token = ""

    def write(self, count: int) -> None:
        with connect(self._port) as connection:
            self._write(connection, count)

    def every(self, per_second: float, at_once: int, stop: threading.Event) -> Iterator[tuple[int, float]]:
        """Until the event, or for ever: the offset of each call's last change, and when the call was sent."""
        due = time.monotonic()
        with connect(self._port) as connection:
            while not stop.wait(max(0.0, due - time.monotonic())):
                sent = time.monotonic()
                self._write(connection, at_once)
                yield int(self.token.rpartition(":")[2]), sent
                # What is late is made up for.
                due += at_once / per_second

    def _write(self, connection: socket.socket, count: int) -> None:
        names = [f"topic-{next(self._numbers)}" for _ in range(count)]
        _, body = ask(connection, post(_ACLS, messages.create(names, "User:u1")))
        found = _TOKEN.search(body)
        assert found is not None, body
        self.token = found[1].decode()


def _visible(served: Served, writer: _Writer, count: int, changes: int) -> list[Row]:
    before = rss_bytes(served.pid)
    with readers(served.port, count, writer.token) as streams:
        opened, cpu_before, began = rss_bytes(served.pid), cpu_s(served.pid), time.monotonic()
        made = itertools.islice(writer.every(_SLOW_RATE, 1, threading.Event()), changes)
        sent = dict(made)
        busy = (cpu_s(served.pid) - cpu_before) / (time.monotonic() - began)
        after = rss_bytes(served.pid)
        seen = streams.end(max(sent), _SEEN_WITHIN_S)
    _insist_on_all(seen, sent, count)
    delays = [(seen.arrivals[offset] - began) * 1_000 for offset, began in sent.items()]
    kib = 1024 * count
    return [
        Row(f"sent until the last of {count:,} readers has it, p50 of {changes}", "ms", [percentile(delays, 0.5)]),
        Row("the same, p99", "ms", [percentile(delays, 0.99)], bar=100),
        Row("the same, slowest", "ms", [max(delays)]),
        Row("memory a reader, stream open", "KiB", [(opened - before) / kib], bar=32),
        Row("memory a reader, after the changes", "KiB", [(after - before) / kib], bar=32),
        Row("CPU of the service meanwhile", "cores", [busy], note=f"{_SLOW_RATE} changes a second"),
    ]


def _insist_on_all(seen: Seen, sent: dict[int, float], count: int) -> None:
    missed = [offset for offset in sent if seen.readers.get(offset) != count]
    if missed or seen.ended:
        raise RuntimeError(f"{len(missed)} changes did not come to all readers; {seen.ended} streams ended")


class _Round(NamedTuple):
    summary: Summary
    written: int
    busy: float
    """Share of a core that the service used."""


def _decisions(served: Served, writer: _Writer, pool: ProcessPoolExecutor, count: int, *, quick: bool) -> Table:
    questions = [[Question("User:u1", "10.1.2.3", _READ, f"topic-{number}")] for number in range(_TOPICS)]
    asked = [post(messages.AUTHORIZE, messages.authorize(each)) for each in questions]
    plan = Plan(asked, _ASKED_RATE, _QUICK_ROUND_S if quick else _ROUND_S)
    idle = pool.submit(open_loop, served, plan).result()
    without, beside, seen, refused = list[_Round](), list[_Round](), list[Seen](), 0
    for _ in range(_QUICK_ROUNDS if quick else _ROUNDS):
        try:
            alone = _round(served, writer, pool, plan)
            with readers(served.port, count, writer.token) as streams:
                beside.append(_round(served, writer, pool, plan))
                seen.append(streams.end(int(writer.token.rpartition(":")[2]), _SEEN_WITHIN_S))
            without.append(alone)
        except RefusedError:
            refused += 1
    rows = [
        _row("p99 of authorize", "ms", beside, without, lambda each: each.summary.p99),
        _row("the same, less waits for a core", "ms", beside, without, lambda each: each.summary.served_p99),
        _row("sent late, p99", "ms", beside, without, lambda each: each.summary.late_p99),
        _row("p50 of authorize", "ms", beside, without, lambda each: each.summary.p50),
        _row("changes a second", "", beside, without, lambda each: each.written / plan.seconds),
        _row("CPU of the service", "cores", beside, without, lambda each: each.busy),
        Row("sent to all readers", "MB/s", [each.received_bytes / plan.seconds / 1e6 for each in seen]),
        Row("readers that were cut", "", [float(each.ended) for each in seen]),
    ]
    rows[0] = msgspec.structs.replace(rows[0], bar=1.25, of_ratio=True)
    quiet = Summary.of(idle)
    remarks = [f"Without changes and readers: p50 {quiet.p50:.2f} ms, p99 {quiet.p99:.2f} ms."]
    remarks += [f"{refused} rounds are left out: a decision was refused as overload in them."] if refused else []
    return Table(f"Decisions beside {count:,} readers and {_FAST_RATE:,} changes a second", rows, "no reader", remarks)


def _row(
    what: str, unit: str, ours: Sequence[_Round], yardstick: Sequence[_Round], value: Callable[[_Round], float]
) -> Row:
    return Row(what, unit, [*map(value, ours)], [*map(value, yardstick)])


def _round(served: Served, writer: _Writer, pool: ProcessPoolExecutor, plan: Plan) -> _Round:
    with _writing(writer) as written:
        time.sleep(1.0)
        before, first, began = cpu_s(served.pid), len(written), time.monotonic()
        samples = pool.submit(open_loop, served, plan).result()
        seconds = time.monotonic() - began
        changes = (len(written) - first) * _AT_ONCE * plan.seconds / seconds
        return _Round(Summary.of(samples), round(changes), (cpu_s(served.pid) - before) / seconds)


@contextmanager
def _writing(writer: _Writer) -> Iterator[list[float]]:
    """Many changes a second meanwhile; the list grows by a call each."""
    calls: list[float] = []
    stop = threading.Event()

    def run() -> None:
        calls.extend(sent for _, sent in writer.every(_FAST_RATE, _AT_ONCE, stop))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield calls
    finally:
        stop.set()
        thread.join()
