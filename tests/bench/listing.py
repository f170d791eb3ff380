"""Section `acls`: acls(filter), whoCan and whatCan over HTTP, and what another caller notices of it."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import MappingProxyType
from typing import NamedTuple

from app.core.kafka.bindings import AclRow
from app.core.kafka.codes import PatternType, ResourceType
from tests.bench import messages
from tests.bench.load import ask, connect, post
from tests.bench.open_loop import Plan, Summary, open_loop, sender
from tests.bench.postgres import Server, filled_store
from tests.bench.processes import Served, klamm_serve, wait_until_ready
from tests.bench.report import Row, Section, Table, percentile, prose
from tests.bench.stored import size_of
from tests.bench.workload import Workload, realistic

_PER_SECOND = 300
_SECONDS, _QUICK_SECONDS = 8.0, 1.0
_LEAD_S = 0.5
_READY_WITHIN_S = 180.0
_SEARCH, _WHO, _WHAT = "/v1/acls/search", "/v1/who-can", "/v1/what-can"
_ACCESS_BAR_MS = 10
_UNSELECTIVE: Mapping[str, dict[str, str]] = MappingProxyType(
    {
        "operation READ": {"operation": "READ"},
        "host `*`": {"host": "*"},
        "a host that no ACL has": {"host": "192.0.2.1"},
        "operation ALTER, which no ACL has": {"operation": "ALTER"},
        "everything": {},
    }
)
_METHOD = f"""
    A real `klamm serve` on the embedded PostgreSQL. One connection asks for first pages (100 entries), one after
    the other; meanwhile another process asks authorize {_PER_SECOND} times a second at fixed times. How long
    the loop was blocked is what the slowest of these took from when it was sent until it was answered, less the
    time in which the replica's event loop or the sender stood ready without a core (`/proc/PID/schedstat`); a
    step between two of them may have been longer by up to {1_000 / _PER_SECOND:.1f} ms.
"""


class Searched(NamedTuple):
    """Milliseconds of each first page, and what the other caller met meanwhile."""

    pages: list[float]
    beside: Summary


def acls(server: Server, *, quick: bool) -> Section:
    """First pages of selective and unselective filters."""
    size = size_of(quick=quick)
    workload = realistic(size)
    selective, questions = _selective(workload.rows), _questions(workload)
    decisions = [post(messages.AUTHORIZE, messages.authorize([each])) for each in workload.questions(2_000)]
    del workload
    plan = Plan(decisions, _PER_SECOND, _QUICK_SECONDS if quick else _SECONDS)
    pages, access, pauses = [], [], []
    with klamm_serve(filled_store(server, size)) as replica, sender() as pool:
        wait_until_ready(replica.port, _READY_WITHIN_S)
        baseline = Summary.of(pool.submit(open_loop, replica, plan).result())
        for what, acl_filter in {**selective, **_UNSELECTIVE}.items():
            found = _searched(replica, pool, plan, [post(_SEARCH, messages.search(acl_filter))])
            bar = 20 if what in selective else None
            pages.append(_page_row(what, found.pages, bar))
            pauses.append(_pause_row(what, found.beside, baseline))
        for what, asked in questions.items():
            found = _searched(replica, pool, plan, asked)
            access.append(_page_row(what, found.pages, _ACCESS_BAR_MS))
            pauses.append(_pause_row(what, found.beside, baseline))
    return Section(
        "acls",
        prose(_METHOD),
        [
            Table(f"acls(filter) among {size:,} ACLs: the first page", pages),
            Table(f"whoCan and whatCan among {size:,} ACLs: the first page of others each time", access),
            Table("The longest step of the event loop meanwhile", pauses, "no search"),
        ],
    )


def _selective(rows: list[AclRow]) -> dict[str, dict[str, str]]:
    topics = [row for row in rows if row[1] == ResourceType.TOPIC and row[2] == PatternType.LITERAL]
    _, _, _, _, _, name, principal, _ = topics[len(topics) // 2]
    resource = {"resource_type": "TOPIC", "resource_name": name}
    return {
        "by principal": {"principal": principal},
        "by resource, LITERAL": {**resource, "pattern_type": "LITERAL"},
        "by resource, MATCH": {**resource, "pattern_type": "MATCH"},
        "by principal and resource": {**resource, "principal": principal},
    }


def _questions(workload: Workload) -> dict[str, list[bytes]]:
    drawn = workload.questions(200, seed=3)
    topics = [{"resource_type": "TOPIC", "resource_name": each.resource_name} for each in drawn]
    return {
        "whoCan": [post(_WHO, messages.asked(resource=each)) for each in topics],
        "whoCan, READ": [post(_WHO, messages.asked(resource=each, operations=["READ"])) for each in topics],
        "whatCan": [post(_WHAT, messages.asked(principal=each.principal)) for each in drawn],
        "whatCan of one host": [
            post(_WHAT, messages.asked(principal=each.principal, host=each.address)) for each in drawn
        ],
    }


def _searched(replica: Served, pool: ProcessPoolExecutor, plan: Plan, asked: Sequence[bytes]) -> Searched:
    pages: list[float] = []
    beside = pool.submit(open_loop, replica, plan)
    time.sleep(min(_LEAD_S, plan.seconds / 4))
    with connect(replica.port) as connection:
        while not beside.done() and len(pages) < 200:
            pages.append(ask(connection, asked[len(pages) % len(asked)])[0] * 1_000)
            time.sleep(0.005)
    return Searched(pages, Summary.of(beside.result()))


def _page_row(what: str, pages: list[float], bar: float | None) -> Row:
    shown = [percentile(pages, share) for share in (0.0, 0.5, 1.0)]
    return Row(what, "ms", shown, bar=bar, note=f"{len(pages)} pages, p99 {percentile(pages, 0.99):.1f} ms")


def _pause_row(what: str, beside: Summary, baseline: Summary) -> Row:
    note = f"slowest authorize from when it was due: {beside.most:.1f} ms"
    return Row(what, "ms", [beside.served_most], [baseline.served_most], bar=20, note=note)
