"""Section `past`: questions with `at`, beside the same questions about now."""

import json
import re
from collections.abc import Mapping, Sequence

from tests.bench import messages
from tests.bench.load import ask, connect, post
from tests.bench.postgres import Server, binding, filled_store, store_of
from tests.bench.processes import Served, cpu_s, klamm_serve, wait_until_ready
from tests.bench.report import Row, Section, Table, percentile, prose
from tests.bench.stored import size_of
from tests.bench.workload import Workload, realistic

_CHANGED, _QUICK_CHANGED = 1_000_000, 2_000
_AT_ONCE = 2_000
_ASKED = 100
_BLOCK = 25
"""Questions in a row, as the kernel counts CPU in hundredths of a second."""
_READY_WITHIN_S = 180.0
_BAR_MS = 50
_TOKEN = re.compile(rb'"token":"([^"]+)"')
_METHOD = f"""
    A real `klamm serve` on the embedded PostgreSQL. Behind the moment that is asked about, so many changes are made
    that take ACLs of the store and give them back, evenly over all of them. Then one connection asks {_ASKED} questions
    of each kind about that moment, and the same ones about now, in turn; others each time. Time is from the request to
    its answer; CPU is that of the replica and of all of PostgreSQL's processes, an answer.
"""


def past(server: Server, *, quick: bool) -> Section:
    """Each kind of question that takes `at`."""
    size, changed = size_of(quick=quick), _QUICK_CHANGED if quick else _CHANGED
    workload = realistic(size)
    questions = _questions(workload)
    with klamm_serve(filled_store(server, size)) as replica:
        wait_until_ready(replica.port, _READY_WITHIN_S)
        then = _change(replica, workload, changed)
        server.execute("VACUUM (ANALYZE)", store_of(size))
        rows = [each for what, asked in questions.items() for each in _rows(replica, server, what, asked, then)]
    title = f"{size:,} ACLs, {changed:,} records behind the moment"
    return Section("past", prose(_METHOD), [Table(title, [each.judged(unless=quick) for each in rows], "now")])


def _change(replica: Served, workload: Workload, records: int) -> str:
    """Writes so many records, and returns the token of the state before them."""
    step = max(1, len(workload.rows) * 2 // records)
    some = [binding(row) for row in workload.rows[::step]][: records // 2]
    with connect(replica.port) as connection:
        then = _token(ask(connection, post(messages.AUTHORIZE, messages.authorize(workload.questions(1))))[1])
        for start in range(0, len(some), _AT_ONCE):
            part = some[start : start + _AT_ONCE]
            for path, name in (("/v1/acls/delete", "filters"), ("/v1/acls", "bindings")):
                body = json.dumps({"context": messages.context(), name: part}).encode()
                _token(ask(connection, post(path, body))[1])
    return then


def _token(answer: bytes) -> str:
    found = _TOKEN.search(answer)
    assert found is not None, answer[:500]
    return found[1].decode()


def _questions(workload: Workload) -> Mapping[str, tuple[str, list[dict[str, object]]]]:
    """By kind: its path, and the bodies."""
    drawn = workload.questions(_ASKED, seed=5)
    topics = [{"resource_type": "TOPIC", "resource_name": each.resource_name} for each in drawn]
    callers = [messages.context(each.principal, each.address) for each in drawn]
    return {
        "explain": (
            "/v1/explain",
            [
                {"context": caller, "actions": [{"operation": "READ", **topic}]}
                for caller, topic in zip(callers, topics, strict=True)
            ],
        ),
        "authorizedOperations": (
            "/v1/authorized-operations",
            [{"context": caller, "resources": [topic]} for caller, topic in zip(callers, topics, strict=True)],
        ),
        "whoCan": ("/v1/who-can", [{"context": messages.context(), "resource": each} for each in topics]),
        "whatCan": (
            "/v1/what-can",
            [{"context": messages.context(), "principal": each.principal} for each in drawn],
        ),
        "acls of a topic": (
            "/v1/acls/search",
            [{"context": messages.context(), "filter": {**each, "pattern_type": "MATCH"}} for each in topics],
        ),
        "acls, the first page of all": ("/v1/acls/search", [{"context": messages.context(), "filter": {}}] * _ASKED),
    }


def _rows(
    replica: Served, server: Server, what: str, asked: tuple[str, Sequence[dict[str, object]]], then: str
) -> list[Row]:
    path, bodies = asked
    postgres = server.pid()
    took: tuple[list[float], list[float]] = ([], [])
    used: tuple[list[float], list[float]] = ([], [])
    with connect(replica.port) as connection:
        for start in range(0, len(bodies), _BLOCK):
            some = bodies[start : start + _BLOCK]
            for moment, times, cpu in zip(({"at": then}, {}), took, used, strict=True):
                before = cpu_s(replica.pid) + cpu_s(postgres)
                for body in some:
                    message = post(path, json.dumps({**body, **moment}).encode())
                    times.append(ask(connection, message)[0] * 1_000)
                cpu.append((cpu_s(replica.pid) + cpu_s(postgres) - before) * 1_000 / len(some))
    at, now = ([percentile(each, share) for share in (0.0, 0.5, 1.0)] for each in took)
    note = f"p99 {percentile(took[0], 0.99):.1f} ms"
    return [
        Row(f"{what}: time", "ms", at, now, bar=_BAR_MS, note=note),
        Row(f"{what}: CPU", "ms", *used),
    ]
