"""One call over HTTP: deadlines, repeats where they do no harm, and every failure as one line for the operator."""

import email.utils
import json
import random
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from app.client.faults import ServiceError, ServiceUnreachableError
from app.client.http.access import Access
from app.client.http.credentials import Bearer, tls_context
from app.client.http.problems import broken_off_text, error_of_reply, is_retriable, reason_of, unreachable_text
from app.client.http.request import Request

MAX_REPLY_BYTES = 128 * 1024 * 1024
"""A page of 1,000 ACLs whose texts are all as long as can be stays below it."""

_CONNECT_PATIENCE_S = 5.0
"""How long nobody may be listening: a restart takes that long, and who mistyped an address must not wait longer."""

_FIRST_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 3.0
_LEAST_STEP_S = 0.001
_PASSING_STATUS = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class _Failure:
    """An attempt that came to nothing: what to say of it, and whether and after how long another one may follow.

    `answered`: somebody was there.
    """

    error: ServiceError
    again: bool = False
    wait_s: float = 0.0
    answered: bool = True


class Exchange:
    """The connection to one service. To be closed."""

    def __init__(self, access: Access) -> None:
        """Raises UsageError if a certificate, a key or an authority can't be used."""
        self._access = access
        self._bearer = Bearer(access)
        verify = tls_context(access)
        self._reads = self._client(verify, kept=1)
        # A connection that was kept may be closed by the service just when an update goes out on it, and then nobody
        # could say whether the update was made.
        self._updates = self._client(verify, kept=0)

    def _client(self, verify: ssl.SSLContext, kept: int) -> httpx.Client:
        socket_path = self._access.socket_path
        limits = httpx.Limits(max_keepalive_connections=kept)
        return httpx.Client(
            base_url="http://localhost" if socket_path is not None else self._access.url,
            transport=httpx.HTTPTransport(verify=verify, uds=socket_path, limits=limits, trust_env=False),
            headers={"accept": "application/json", "accept-encoding": "identity", "user-agent": "klamm"},
            follow_redirects=False,
            trust_env=False,
        )

    def close(self) -> None:
        """Let go of all connections."""
        self._reads.close()
        self._updates.close()

    def answer(self, request: Request, timeout_s: float) -> dict[str, object]:
        """The JSON object that the service answers with, all repeats within `timeout_s` seconds.

        Raises ServiceError.
        """
        began_at = time.monotonic()
        deadline = began_at + timeout_s
        give_up_at = min(deadline, began_at + _CONNECT_PATIENCE_S)
        backoffs = _backoffs()
        while isinstance(outcome := self._attempt(request, deadline), _Failure):
            pause_s = max(next(backoffs), outcome.wait_s)
            now = time.monotonic()
            if outcome.answered:
                give_up_at = min(deadline, now + pause_s + _CONNECT_PATIENCE_S)
            if not outcome.again or now + pause_s >= (deadline if outcome.answered else give_up_at):
                raise outcome.error
            time.sleep(pause_s)
        return outcome

    def _attempt(self, request: Request, deadline: float) -> dict[str, object] | _Failure:
        client = self._reads if request.idempotent else self._updates
        headers = {"content-type": "application/json", **self._bearer.header()}
        left_s = max(_LEAST_STEP_S, deadline - time.monotonic())
        try:
            with client.stream(
                request.method,
                request.path,
                content=request.content,
                headers=headers,
                timeout=httpx.Timeout(left_s, connect=min(left_s, _CONNECT_PATIENCE_S)),
            ) as response:
                body = self._read(response, deadline)
        except httpx.HTTPError as fault:
            return self._failed(fault, request)
        if response.is_success:
            return self._parsed(body, response, request)
        return self._refused(response, body, request)

    def _read(self, response: httpx.Response, deadline: float) -> bytes:
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > MAX_REPLY_BYTES:
                raise ServiceError(f"`{self._access.url}` answers with more than {MAX_REPLY_BYTES} bytes; ask for less")
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the whole answer did not come in time", request=response.request)
        return bytes(body)

    def _parsed(self, body: bytes, response: httpx.Response, request: Request) -> dict[str, object]:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise ServiceError(
                f"`{self._access.url}` does not answer as Klamm does; is it the service's address? (--klamm)",
                status=response.status_code,
                outcome_unknown=not request.idempotent,
            )
        return value

    def _refused(self, response: httpx.Response, body: bytes, request: Request) -> _Failure:
        status = response.status_code
        error = error_of_reply(self._access.url, response, body, update=not request.idempotent)
        again = status in _PASSING_STATUS and (
            # 504: nobody knows what became of it. And a proxy's own answer says nothing about the service's.
            request.idempotent or (status in (429, 503) and is_retriable(body))
        )
        return _Failure(error, again, _retry_after_s(response))

    def _failed(self, fault: httpx.HTTPError, request: Request) -> _Failure:
        if isinstance(fault, httpx.ConnectError | httpx.ConnectTimeout):
            reason = reason_of(fault)
            error = ServiceUnreachableError(unreachable_text(self._access, reason))
            return _Failure(error, again=reason.passing, answered=False)
        if request.idempotent:
            late = isinstance(fault, httpx.TimeoutException)
            text = "did not answer in time; give it longer with --timeout" if late else broken_off_text(self._access)
            return _Failure(ServiceError(f"`{self._access.url}` {text}"), again=not late)
        return _Failure(
            ServiceError(
                f"`{self._access.url}` gave no answer, so nobody knows whether the change was made; look at the ACLs "
                "before you repeat it",
                outcome_unknown=True,
            )
        )


def _backoffs() -> Iterator[float]:
    """Waits that double, each drawn from its upper half so that callers who failed together come back apart."""
    highest = _FIRST_BACKOFF_S
    while True:
        yield random.uniform(highest / 2, highest)  # noqa: S311 - no secret
        highest = min(2 * highest, _MAX_BACKOFF_S)


def _retry_after_s(response: httpx.Response) -> float:
    """What the service asks for, in seconds; 0 if it does not, or says it in a way that means nothing."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0
