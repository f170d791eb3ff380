"""Section `unauthenticated`: what a thousand clients without credentials cost a known caller."""

import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from tests.bench import messages
from tests.bench.clients import Answered, Clients, asking
from tests.bench.load import TOKEN, connect, post, status_from
from tests.bench.processes import bench_server
from tests.bench.report import Row, Section, Table, percentile, prose
from tests.bench.workload import realistic
from tests.certificates import Authority

_ACLS = 10_000
_UNKNOWN, _QUICK_UNKNOWN = 1_000, 200
_CONNECTING = 16
_ROUNDS, _QUICK_ROUNDS = 5, 1
_ROUND_S, _QUICK_ROUND_S = 5.0, 2.0
_METHOD = f"""
    A replica with {_ACLS:,} ACLs that knows one caller, on the first core, all load on the second. {_UNKNOWN:,}
    clients on kept connections each send the next request when they have an answer: authorize with a wrong token
    (401), a path that does not exist (404), and /livez. The known caller asks for one decision after the other on one
    connection, alone and beside them, in turn. Then the same over TLS, and over TLS with {_CONNECTING} clients that
    connect anew for each request, where the ratio is only told: a handshake is paid for before anybody is known.
    The known caller shares its core with the clients, so its own delays are in the ratio.
"""


class Known(NamedTuple):
    """One round of the known caller: how often each status came, and how long each answer took, in seconds."""

    statuses: Counter[int]
    latencies_s: list[float]

    @property
    def p99_us(self) -> float:
        """The slowest but one in a hundred, in microseconds."""
        return percentile(self.latencies_s, 0.99) * 1e6

    @property
    def share(self) -> float:
        """How much of it was answered with 200."""
        return self.statuses[200] / self.statuses.total()


class Rounds(NamedTuple):
    """Rounds alone and beside the others."""

    alone: list[Known]
    beside: list[Known]
    others: list[Answered]


def unauthenticated(*, quick: bool) -> Section:
    """A known caller beside many that are not."""
    workload, count = realistic(_ACLS), _QUICK_UNKNOWN if quick else _UNKNOWN
    asked = [post(messages.AUTHORIZE, messages.authorize([each])) for each in workload.questions(1_000)]
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        certified = authority.certify("server")
        tls = ssl.create_default_context(cafile=str(authority.file))
        with bench_server("server", str(_ACLS), TOKEN) as plain:
            kept = _rounds(Clients(plain.port, _others(), count), asked, None, quick=quick)
        files = str(certified.certificate), str(certified.key)
        with bench_server("server", str(_ACLS), TOKEN, *files, tls=tls) as server:
            clients = Clients(server.port, _others(), count, str(authority.file))
            secured = _rounds(clients, asked, tls, quick=quick)
            clients = clients._replace(connections=_CONNECTING, reconnects=True)
            connecting = _rounds(clients, asked, tls, quick=quick)
    tables = [
        _table(f"{count:,} kept connections", kept, bar=0.99),
        _table(f"{count:,} kept connections over TLS", secured, bar=0.99),
        _table("A handshake for each request", connecting, bar=None),
    ]
    return Section("unauthenticated", prose(_METHOD), tables)


def _others() -> Sequence[bytes]:
    wrong = post(messages.AUTHORIZE, b"{}", "klamm_" + "w" * 43)
    return [wrong, *(f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode() for path in ("/nothing", "/livez"))]


def _rounds(clients: Clients, asked: Sequence[bytes], tls: ssl.SSLContext | None, *, quick: bool) -> Rounds:
    found = Rounds([], [], [])
    seconds = _QUICK_ROUND_S if quick else _ROUND_S
    for _ in range(_QUICK_ROUNDS if quick else _ROUNDS):
        found.alone.append(_known(clients.port, asked, tls, seconds))
        with asking(clients) as answered:
            found.beside.append(_known(clients.port, asked, tls, seconds))
        found.others.extend(answered)
    return found


def _known(port: int, asked: Sequence[bytes], tls: ssl.SSLContext | None, seconds: float) -> Known:
    known = Known(Counter(), [])
    next_message, end = cycle(asked).__next__, time.monotonic() + seconds
    with connect(port, tls) as connection:
        while time.monotonic() < end:
            began = time.monotonic()
            connection.sendall(next_message())
            known.statuses[status_from(connection)] += 1
            known.latencies_s.append(time.monotonic() - began)
    return known


def _table(title: str, rounds: Rounds, *, bar: float | None) -> Table:
    others = Counter[int]()
    for each in rounds.others:
        others.update(each.statuses)
    told = ", ".join(f"{count:,} with {status}" for status, count in sorted(others.items()))
    longest_ms = max(each.longest_s for each in rounds.others) * 1_000
    return Table(
        title,
        [
            Row("known caller answered", "share", [each.share for each in rounds.beside], bar=bar, at_least=True),
            Row("its p99", "us", [each.p99_us for each in rounds.beside], [each.p99_us for each in rounds.alone]),
        ],
        "alone",
        [f"the others were answered {told}; the longest wait was {longest_ms:.0f} ms"],
    )
