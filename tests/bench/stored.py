"""Sections `import`, `memory` and `reload`: a replica of a million ACLs in PostgreSQL."""

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from tests.bench import messages
from tests.bench.load import post
from tests.bench.open_loop import Plan, Sample, Summary, open_loop, sender
from tests.bench.postgres import Server, filled_store, import_acls, store_of
from tests.bench.processes import RunQueue, Served, cpu_s, klamm_serve, peak_rss_bytes, rss_bytes, wait_until_ready
from tests.bench.report import Row, Section, Table, prose
from tests.bench.workload import realistic

_SIZE, _QUICK_SIZE = 1_000_000, 20_000
_KAFKAS_BYTES = 348
_EACH = "bytes an ACL"
_ROUNDS = 3
_READY_WITHIN_S = 180.0
_REST_S = 2.0
_PER_SECOND = 300
_BETWEEN = f"{1_000 / _PER_SECOND:.1f} ms"
_IDLE_S, _QUICK_IDLE_S = 15.0, 3.0
_RELOAD_WITHIN_S = 150.0
_SETTLE_S = 2.0
_NEW_EPOCH = """WITH said AS MATERIALIZED (SELECT set_config('klamm.epoch_diverged', 'true', true) AS so)
UPDATE acl_head SET epoch = gen_random_uuid() FROM said WHERE so = 'true' RETURNING 1"""
_RELOAD_METHOD = f"""
    A real `klamm serve` on the embedded PostgreSQL answers an open-loop load of {_PER_SECOND} single decisions
    a second: a process on the other core, at a raised priority where that is allowed, sends at fixed times,
    whatever comes back, and latency counts from when a request was due. First the idle time, then the same
    while the replica loads everything once more beside the image in use (the store gets another epoch, as after
    a restore), from then until {_SETTLE_S:g} s after the first answer from the fresh image. Sender and
    PostgreSQL share the second core. So that this is not mistaken for a pause of the replica, the longest pause
    is taken from when a request was sent until it was answered, less the time in which the replica's event loop
    or the sender stood ready without a core (`/proc/PID/schedstat`); a request is due every
    {_BETWEEN}, so a pause may have been longer by up to that.
"""


def size_of(*, quick: bool) -> int:
    """So many ACLs are in the store."""
    return _QUICK_SIZE if quick else _SIZE


def bulk_import(server: Server, *, quick: bool) -> Section:
    """`klamm import` of all the ACLs into an empty store."""
    size = size_of(quick=quick)
    took = import_acls(server, size)
    rows = [
        Row(f"klamm import of {size:,} ACLs", "s", [took], bar=120),
        Row("that is", "ACLs/s", [size / took]),
    ]
    method = """
        Wall time of the real command, from its start to its end, on a file of JSON lines, into a newborn store
        of the embedded PostgreSQL: feed records with their hash chain, commits and fsync included. Once.
    """
    return Section("import", prose(method), [Table("Import", [each.judged(unless=quick) for each in rows])])


class Start(NamedTuple):
    """A start of a replica: seconds until READY, and bytes from then on."""

    wall_s: float
    cpu_s: float
    without_core_s: float
    resident: int
    peak: int


def memory(server: Server, *, quick: bool) -> Section:
    """What a replica takes, and how long until it serves."""
    size = size_of(quick=quick)
    filled, empty = filled_store(server, size), server.new_store("empty")
    starts = [_started(filled) for _ in range(1 if quick else _ROUNDS)]
    bare = _started(empty).resident
    kafkas = f"Kafka's JVM: {_KAFKAS_BYTES} of heap"
    resident = [each.resident / size for each in starts]
    rows = [
        Row(f"resident, whole process, {size:,} ACLs", _EACH, resident, bar=450, goal=350, note=kafkas),
        Row("the same less an empty replica", _EACH, [each - bare / size for each in resident]),
        Row("most resident until then", _EACH, [each.peak / size for each in starts]),
        Row("an empty replica", "MB", [bare / 1e6]),
        Row(f"cold start to READY, {size:,} ACLs", "s", [each.wall_s for each in starts], bar=20, goal=10),
        Row("CPU of the replica in this time", "s", [each.cpu_s for each in starts]),
        Row("it stood ready without a core", "s", [each.without_core_s for each in starts]),
    ]
    method = """
        A real `klamm serve` on the embedded PostgreSQL. Cold start: wall time from its exec to the first 200 of
        /readyz, looked for every 50 ms. Memory: RSS of the process two seconds later. PostgreSQL is on the
        other core, its cache is warm.
    """
    return Section(
        "memory", prose(method), [Table("Memory and cold start", [each.judged(unless=quick) for each in rows])]
    )


def _started(dsn: str) -> Start:
    began = time.monotonic()
    with klamm_serve(dsn) as replica, RunQueue(replica.pid) as queue:
        wait_until_ready(replica.port, _READY_WITHIN_S)
        until_ready = time.monotonic() - began, cpu_s(replica.pid), queue.waited_s()
        time.sleep(_REST_S)
        return Start(*until_ready, rss_bytes(replica.pid), peak_rss_bytes(replica.pid))


def reload(server: Server, *, quick: bool) -> Section:
    """What callers notice while all ACLs are loaded once more."""
    size = size_of(quick=quick)
    idle_s = _QUICK_IDLE_S if quick else _IDLE_S
    requests = [post(messages.AUTHORIZE, messages.authorize([each])) for each in realistic(size).questions(5_000)]
    idle, busy, lasted, peaks = [], [], [], []
    with klamm_serve(filled_store(server, size)) as replica, sender() as pool:
        wait_until_ready(replica.port, _READY_WITHIN_S)
        for _ in range(1 if quick else _ROUNDS):
            plan = Plan(requests, _PER_SECOND, idle_s)
            idle.append(Summary.of(pool.submit(open_loop, replica, plan).result()))
            samples = _while_reloading(server, replica, requests, size, pool)
            busy.append(Summary.of(samples))
            lasted.append(_lasted(samples))
            peaks.append(peak_rss_bytes(replica.pid) / size)
    return Section("reload", prose(_RELOAD_METHOD), [_reload_table(idle, busy, lasted, peaks)])


def _while_reloading(
    server: Server, replica: Served, requests: Sequence[bytes], size: int, pool: ProcessPoolExecutor
) -> list[Sample]:
    plan = Plan(requests, _PER_SECOND, _RELOAD_WITHIN_S, settle_s=_SETTLE_S)
    under_load = pool.submit(open_loop, replica, plan)
    time.sleep(0.5)
    began = time.monotonic()
    server.execute(_NEW_EPOCH, store_of(size))
    return [each for each in under_load.result() if each.due >= began]


def _lasted(samples: Sequence[Sample]) -> float:
    """Seconds until the first answer from the fresh image. Raises TimeoutError if there was none."""
    for each in samples:
        if each.epoch != samples[0].epoch:
            return each.answered - samples[0].due
    raise TimeoutError(f"no fresh image within {_RELOAD_WITHIN_S:g} s")


def _reload_table(idle: list[Summary], busy: list[Summary], lasted: list[float], peaks: list[float]) -> Table:
    above = [mine.p99 - rest.p99 for mine, rest in zip(busy, idle, strict=True)]
    served = [mine.served_p99 - rest.served_p99 for mine, rest in zip(busy, idle, strict=True)]
    rows = [
        Row("p50 of authorize", "ms", [each.p50 for each in busy], [each.p50 for each in idle]),
        Row("p99 of authorize", "ms", [each.p99 for each in busy], [each.p99 for each in idle]),
        Row("slowest authorize", "ms", [each.most for each in busy], [each.most for each in idle]),
        Row("p99 of authorize above idle", "ms", above, bar=5),
        Row("the same, waits for a core taken off", "ms", served),
        Row(
            "longest pause of all rounds, waits for a core taken off",
            "ms",
            [max(each.served_most for each in busy)],
            [max(each.served_most for each in idle)],
            bar=20,
        ),
        Row("from the new epoch to the first answer from the fresh image", "s", lasted),
        Row("most resident so far, both images", _EACH, peaks),
    ]
    return Table("A full reload under load", rows, "idle")
