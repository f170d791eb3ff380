"""Section `past`: questions with `at`, beside the same questions about now."""

import json
from collections.abc import Mapping, Sequence

from tests.bench import messages
from tests.bench.load import ask, connect, post
from tests.bench.postgres import Server, filled_store, store_of
from tests.bench.processes import Served, cpu_s, klamm_serve, wait_until_ready
from tests.bench.report import Row, Section, Table, percentile, prose
from tests.bench.stored import size_of
from tests.bench.workload import Workload, realistic

_STORE = "aged"
_ROUNDS = 9
"""How often each ACL is changed; its making is one record more."""
_ASKED = 100
_BLOCK = 25
"""Questions in a row, as the kernel counts CPU in hundredths of a second."""
_READY_WITHIN_S = 180.0
_BAR_MS = 50
_INDEXES = ("resource", "principal")
# Records of changes to an ACL's owner, in another order each time. Nobody reads their hashes but that of the head.
_CHANGE = """
    INSERT INTO acl_record ("offset", tx_last, kind, acl_id, resource_type, pattern_type, operation, permission_type,
        resource_name, principal, host, recorded_at, actor, hash, owner, hash_version, was_there, prior_owner)
    SELECT head.last_offset + acl.n, head.last_offset + acl.n, 'AccessControlEntryRecord', acl.id, acl.resource_type,
        acl.pattern_type, acl.operation, acl.permission_type, acl.resource_name, acl.principal, acl.host,
        clock_timestamp(), 'User:bench', sha256(int8send(head.last_offset + acl.n)), acl.owner, 2, true, acl.owner
    FROM acl_head AS head,
        (SELECT *, row_number() OVER (ORDER BY hashtextextended(id::text, {number})) AS n FROM acl) AS acl
"""
_HEAD = """
    UPDATE acl_head SET digest = NULL, last_offset = last.at, hash = sha256(int8send(last.at))
    FROM (SELECT max("offset") AS at FROM acl_record) AS last
"""
_METHOD = f"""
    A real `klamm serve` on the embedded PostgreSQL. Each ACL of the store has been made and then changed {_ROUNDS}
    times, by SQL; the last of these changes lie behind the moment that is asked about. One connection asks {_ASKED}
    questions of each kind about that moment, and the same ones about now, in turn; others each time. Time is from the
    request to its answer; CPU is that of the replica and of all of PostgreSQL's processes, an answer.
"""


def past(server: Server, *, quick: bool) -> Section:
    """Each kind of question that takes `at`."""
    size = size_of(quick=quick)
    questions = _questions(realistic(size))
    filled_store(server, size)
    store = server.copy(store_of(size), _STORE)
    then = _age(server)
    with klamm_serve(store) as replica:
        wait_until_ready(replica.port, _READY_WITHIN_S)
        rows = [each for what, asked in questions.items() for each in _rows(replica, server, what, asked, then)]
    server.execute(f'DROP DATABASE "{_STORE}" WITH (FORCE)')
    title = f"{size:,} ACLs, {size * (1 + _ROUNDS):,} records, {size:,} of them behind the moment"
    return Section("past", prose(_METHOD), [Table(title, [each.judged(unless=quick) for each in rows], "now")])


def _age(server: Server) -> str:
    """Writes the records, and returns the token of the state before the last round of them."""
    definitions = [
        server.execute(f"SELECT pg_get_indexdef('ix_acl_record_{name}'::regclass)", _STORE) for name in _INDEXES
    ]
    for name in _INDEXES:
        server.execute(f"DROP INDEX ix_acl_record_{name}", _STORE)
    then = ""
    for number in range(_ROUNDS):
        then = server.execute("SELECT epoch || ':' || last_offset FROM acl_head", _STORE)
        server.execute(_CHANGE.format(number=number), _STORE)
        server.execute(_HEAD, _STORE)
    for each in definitions:
        server.execute(each, _STORE)
    server.execute("VACUUM (ANALYZE)", _STORE)
    server.execute("CHECKPOINT")
    return then


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
