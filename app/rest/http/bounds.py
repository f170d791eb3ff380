"""The bounds on connections and messages, and the reply to a client that exceeds one.

How many requests the application works on at once is bounded in `admission`.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple

from app.core.kafka.errors import ApiException, InvalidRequestException, OverloadedException
from app.rest.errors import PROBLEM_MEDIA_TYPE, BodyTimedOutException, problem_response

# Connections of a process

DEFAULT_MAX_CONNECTIONS = 10_000
"""`connections.max`: a connection with a parser and its buffers takes some 10 KB."""
SPARE_DESCRIPTORS = 256
"""For PostgreSQL, logs, files, and surplus connections."""
MAX_SURPLUS = 128
"""Connections above the maximum, which may only send probes."""

# Times

TLS_TIMEOUT_S = 10.0
HEAD_TIMEOUT_S = 10.0
"""For a head, and for the first request of a connection. The timeout of bodies is in `bodies.reading`."""
SURPLUS_TIMEOUT_S = 1.0
"""For the first request of a surplus connection."""
FIRST_REQUEST_S = 1.0
"""For the first request on a connection that was accepted just before the server ends."""
STRANGER_KEPT_S = 2
"""How long an idle connection is kept on which no known caller has been answered."""
READER_TIMEOUT_S = 10.0
READER_BYTES = 64 * 1024
"""A client must read this much of its replies within that time."""
LINGER_S = 2.0
LINGER_BYTES = 8 * 1024 * 1024
"""After its last reply, a client may go on sending for this long, and this much."""

# Messages

MAX_HEAD_BYTES = 16 * 1024
"""For the head and the trailers of a message together."""
MAX_HEAD_LINES = 100
MAX_CHUNK_OVERHEAD = 8
"""Bytes around chunks for each byte in them, beyond MAX_HEAD_BYTES; a chunk of one byte has five."""
MAX_LENGTH_DIGITS = 20
"""The parser accepts any number of leading zeros, Python's `int` doesn't."""
MAX_PIPELINED = 16
"""Requests that wait for the one before them; each costs some kilobytes."""
MAX_HELD_BYTES = 64 * 1024
"""How much of an incomplete body is held back, for each connection."""
MAX_HELD_BYTES_OF_ALL = 32 * 1024 * 1024

# Turns of the event loop

TURN_BUDGET_S = 0.0065
"""Under overload. Two turns and their refusals stay below 20 ms; two of the largest batches (3 ms each) fit into one
turn.
"""
STEADY_BUDGET_S = 0.02
"""The budget of a turn after one in which nothing was refused. Callers that wait for their answers have one request
each in a turn: as long as all of these together take no longer, none is refused, whatever one costs on this machine.
"""
BURST_BUDGET_S = 0.05
"""The budget of a turn after a calm one."""
LONGEST_TURN_S = 0.25
"""A turn is over budget after this time, even if other processes had the core."""
UNAUTHENTICATED_BUDGET_S = 0.00025
"""CPU time in each turn for all unauthenticated clients together: some ten answers."""
UNAUTHENTICATED_SHARE = 1 / 8
"""Of a turn that is longer. A thousand of them are answered within half a second, however much known callers send."""
UNAUTHENTICATED_MOST_S = 0.002
UNAUTHENTICATED_DEBT_S = 0.02
"""A request that takes more than the budget is paid for by the turns behind it, up to so much."""
MAX_DEFERRED_BYTES_OF_ALL = 16 * 1024 * 1024
"""What may wait of them; whoever sends more is refused."""


def stranger_s(known_s: int) -> int:
    """How long a stranger's idle connection is kept, if a known caller's is kept for `known_s`."""
    return min(known_s, STRANGER_KEPT_S)


def kept_for(seconds: int) -> bytes:
    """The header lines that say how long the connection is kept when idle; 0: this reply is its last.

    A client that isn't told keeps it for minutes, and may then use a closed one (RFC 2068, 19.7.1.1).
    """
    if not seconds:
        return b"connection: close\r\n"
    return b"connection: keep-alive\r\nkeep-alive: timeout=%d\r\n" % seconds


class Refusal(NamedTuple):
    """A reply that the protocol makes without the application."""

    status: HTTPStatus
    body: bytes
    retry: bool = False

    @staticmethod
    def of(status: HTTPStatus, why: ApiException) -> "Refusal":
        body = bytes(problem_response(why).body).replace(
            b'"status":%d' % problem_response(why).status_code, b'"status":%d' % status
        )
        return Refusal(status, body, status is HTTPStatus.TOO_MANY_REQUESTS)

    def written(self, head: Sequence[tuple[bytes, bytes]], *, kept_s: int = 0) -> bytes:
        lines = [
            b"HTTP/1.1 %d %b" % (self.status, self.status.phrase.encode()),
            *(b"%b: %b" % each for each in head),
            b"content-type: %b" % PROBLEM_MEDIA_TYPE.encode(),
            b"content-length: %d" % len(self.body),
        ]
        lines += [b"retry-after: 1"] if self.retry else []
        return b"\r\n".join((*lines, kept_for(kept_s) + b"\r\n" + self.body))


MALFORMED = Refusal.of(HTTPStatus.BAD_REQUEST, InvalidRequestException("this is not a valid HTTP/1.1 request"))
REPEATED_HEADER = Refusal.of(
    HTTPStatus.BAD_REQUEST,
    InvalidRequestException("`Authorization`, `Content-Length` and `Host` must not be repeated; send one of each"),
)
NO_HOST = Refusal.of(
    HTTPStatus.BAD_REQUEST, InvalidRequestException("an HTTP/1.1 request must have a `Host` header; send one")
)
HEAD_TOO_LARGE = Refusal.of(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    InvalidRequestException("the headers exceed 16384 bytes or 100 lines; send fewer or shorter ones"),
)
TIMED_OUT = Refusal.of(
    HTTPStatus.REQUEST_TIMEOUT,
    BodyTimedOutException("the request did not arrive within 10 s; send the whole of it at once"),
)
OVERLOADED = Refusal.of(
    HTTPStatus.TOO_MANY_REQUESTS,
    OverloadedException("the service is overloaded; nothing was done, try again shortly"),
)
TOO_MANY_CONNECTIONS = Refusal.of(
    HTTPStatus.TOO_MANY_REQUESTS,
    OverloadedException("the service has reached its maximum of connections; nothing was done, try again shortly"),
)
