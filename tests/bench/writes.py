"""Section `writes`: createAcls on a real PostgreSQL, and how soon another replica shows what was written."""

import itertools
import re
import socket
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

from tests.bench import messages
from tests.bench.load import Load, RefusedError, ask, closed_loop, connect, post
from tests.bench.postgres import Server
from tests.bench.processes import Core, RunQueue, Served, cpu_s, klamm_serve, wait_until_ready
from tests.bench.report import Row, Section, Table, percentile, prose
from tests.bench.workload import Question

_CLIENTS = 64
_ROUNDS, _QUICK_ROUNDS = 5, 2
_ROUND_S, _QUICK_ROUND_S = 5.0, 1.5
_BULK, _BULK_ROUNDS = 10_000, 3
_SEEN, _QUICK_SEEN = 1_000, 100
_READY_WITHIN_S = 60.0
_ACLS = "/v1/acls"
_READ = 3
_TOKEN = re.compile(rb'"token":"([^"]+)"')
_METHOD = f"""
    Real `klamm serve` processes on the embedded PostgreSQL with fsync on, in a newborn store; the replica that
    is written to on the first core, PostgreSQL, load and the other replica on the second. {_CLIENTS} clients
    keep one createAcls call each under way, one binding a call; an ACL counts when its reply says that it was
    created, which is when it is durable and this replica decides by it. Visible on another replica: each write
    is acknowledged by one replica, then the other one is asked, with the write's token as `at_least`; what
    counts is from the acknowledgement to its answer, which is ALLOWED.
"""


def writes(server: Server, *, quick: bool) -> Section:
    """Throughput, one big call, and visibility."""
    dsn = server.new_store("writes")
    with klamm_serve(dsn) as first:
        wait_until_ready(first.port, _READY_WITHIN_S)
        rows = [*_by_many(first, server, quick=quick), _in_one_call(first, quick=quick)]
        with klamm_serve(dsn, Core.LOAD) as second:
            wait_until_ready(second.port, _READY_WITHIN_S)
            rows += _visible(first, second, _QUICK_SEEN if quick else _SEEN)
    version = server.execute("SHOW server_version")
    sync = server.execute("SHOW fsync") + ", synchronous_commit " + server.execute("SHOW synchronous_commit")
    remarks = [f"PostgreSQL {version}, fsync {sync}"]
    return Section("writes", prose(_METHOD), [Table("Writes", rows, remarks=remarks)])


class Round(NamedTuple):
    """A round of writes, and the CPU seconds that went into it."""

    load: Load
    replica_s: float
    postgres_s: float
    without_core_s: float


def _by_many(replica: Served, server: Server, *, quick: bool) -> list[Row]:
    numbers = itertools.count()
    postgres = server.pid()

    def message() -> bytes:
        number = next(numbers)
        return post(_ACLS, messages.create([f"topic-{number}"], f"User:u{number % 100}"))

    def measured() -> Round:
        with RunQueue(replica.pid) as queue:
            before = cpu_s(replica.pid), cpu_s(postgres), queue.waited_s()
            seconds = _QUICK_ROUND_S if quick else _ROUND_S
            load = closed_loop(replica.port, message, seconds, _CLIENTS, _insist_on_creation)
            after = cpu_s(replica.pid), cpu_s(postgres), queue.waited_s()
        return Round(load, *(end - begin for begin, end in zip(before, after, strict=True)))

    return _rows_of([measured() for _ in range(_QUICK_ROUNDS if quick else _ROUNDS)])


def _rows_of(rounds: list[Round]) -> list[Row]:
    loads = [each.load for each in rounds]
    shape = f"createAcls, {_CLIENTS} clients, one binding a call"
    idle = statistics.median(each.without_core_s / each.load.wall_s for each in rounds)
    note = f"the replica stood ready without a core {idle:.0%} of the time"
    return [
        Row(shape, "ACLs/s", [each.answers / each.wall_s for each in loads], bar=5_000, at_least=True, note=note),
        Row("p50 of these calls", "ms", [percentile(each.latencies_s, 0.5) * 1_000 for each in loads]),
        Row("p99 of these calls", "ms", [percentile(each.latencies_s, 0.99) * 1_000 for each in loads]),
        Row("CPU of the replica, an ACL", "us", [each.replica_s / each.load.answers * 1e6 for each in rounds]),
        Row("CPU of PostgreSQL, an ACL", "us", [each.postgres_s / each.load.answers * 1e6 for each in rounds]),
    ]


def _in_one_call(replica: Served, *, quick: bool) -> Row:
    took = []
    with connect(replica.port) as connection:
        for at in range(1 if quick else _BULK_ROUNDS):
            names = [f"bulk-{at}-{number:05d}" for number in range(_BULK)]
            seconds, body = ask(connection, post(_ACLS, messages.create(names, "User:bulk")))
            if body.count(b'"created":true') != _BULK:
                raise RefusedError(body[:500].decode())
            took.append(seconds)
    return Row(f"one createAcls call of {_BULK:,} bindings", "s", took, bar=3)


def _visible(first: Served, second: Served, count: int) -> list[Row]:
    with connect(first.port) as writer, connect(second.port) as reader:
        seen = list(_sightings(writer, reader, count))
    acknowledged, shown = [[each[at] * 1_000 for each in seen] for at in (0, 1)]
    return [
        Row(f"acknowledged to visible on another replica, p50 of {count:,}", "ms", [statistics.median(shown)], bar=10),
        Row("the same, p99", "ms", [percentile(shown, 0.99)], bar=100),
        Row("the same, slowest", "ms", [max(shown)]),
        Row("a write alone until it is acknowledged, p50", "ms", [statistics.median(acknowledged)]),
        Row("the same, p99", "ms", [percentile(acknowledged, 0.99)]),
    ]


def _sightings(writer: socket.socket, reader: socket.socket, count: int) -> Iterator[tuple[float, float]]:
    """For each write: seconds until it is acknowledged, and from then until the other replica shows it."""
    for number in range(count):
        name, principal = f"seen-{number}", f"User:s{number % 50}"
        written_s, body = ask(writer, post(_ACLS, messages.create([name], principal)))
        _insist_on_creation(body)
        acknowledged = time.monotonic()
        found = _TOKEN.search(body)
        assert found is not None, body
        question = Question(principal, "10.1.2.3", _READ, name)
        _, answer = ask(reader, post(messages.AUTHORIZE, messages.authorize([question], found[1].decode())))
        shown_s = time.monotonic() - acknowledged
        assert b'["ALLOWED"]' in answer, answer
        yield written_s, shown_s


def _insist_on_creation(body: bytes) -> None:
    if b'"created":true' not in body:
        raise RefusedError(body.decode())
