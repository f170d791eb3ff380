"""One call over HTTP: deadlines, retries where they do no harm, and every failure as one line for the operator."""

import email.utils
import json
import random
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import httpx

from app.client.http.access import UNIX, Access
from app.client.http.credentials import Bearer, tls_context
from app.client.http.replies import ServiceError, text_or_none
from app.core.backoff import Backoff
from app.formats.feed_events import MAX_LINE_BYTES

MAX_REPLY_BYTES = 128 * 1024 * 1024
"""More than a page of 1,000 ACLs can hold, however long their names are."""

_CONNECT_PATIENCE_S = 5.0
"""How long a refused connection is retried: long enough for a restart, short enough for a mistyped address."""

_FIRST_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 3.0
_LEAST_STEP_S = 0.001
_PASSING_STATUS = (429, 502, 503, 504)
_MAX_FIELDS = 20
_SHOWN_CHARACTERS = 200

_LOOK_FIRST = "it is unknown whether the change was made; check the ACLs before you repeat it"
_HINTS = {
    401: "give a token with --token-file or --command-config",
    403: "the principal (--as) needs Describe on the cluster to read ACLs, DescribeConfigs as well to read the feed, "
    "and Alter to change ACLs, and must be one that this caller may speak for",
}
_NO_PATH = "leave its path out (--klamm http://host:port), unless a proxy needs it"


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    content: bytes | None
    idempotent: bool


class Exchange:
    def __init__(self, access: Access) -> None:
        """Raises UsageError if a certificate, a key or an authority can't be used."""
        self._access = access
        self._bearer = Bearer(access)
        verify = tls_context(access)
        self._reads = self._client(verify, kept=1)
        # The service may close a kept connection just when an update goes out on it. Its outcome would be unknown, so
        # updates keep none.
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
        self._reads.close()
        self._updates.close()

    def answer(
        self, method: str, path: str, content: bytes | None, *, idempotent: bool, timeout_s: float
    ) -> dict[str, object]:
        """Retries within `timeout_s`; if `idempotent`, whatever the outcome of the call. Raises ServiceError."""
        request = _Request(method, path, content, idempotent)
        began_at = time.monotonic()
        deadline = began_at + timeout_s
        give_up_at = min(deadline, began_at + _CONNECT_PATIENCE_S)
        backoff = Backoff(_FIRST_BACKOFF_S, _MAX_BACKOFF_S, random.uniform)
        while True:
            try:
                return self._attempt(request, deadline)
            except ServiceError as error:
                pause_s = max(backoff.next_s(), error.wait_s)
                now = time.monotonic()
                if error.answered:
                    give_up_at = min(deadline, now + pause_s + _CONNECT_PATIENCE_S)
                if not error.again or now + pause_s >= (deadline if error.answered else give_up_at):
                    raise
            time.sleep(pause_s)

    def lines(
        self, path: str, *, silence_s: float, headers: Mapping[str, str] = MappingProxyType({})
    ) -> Iterator[bytes]:
        """The lines of a reply that goes on until the service ends it, or the caller closes this.

        Raises ServiceError if it is refused, breaks off or is silent for `silence_s`; `again` tells whether that may
        pass.
        """
        request = _Request("GET", path, None, idempotent=True)
        sent = {"accept": "application/x-ndjson", **headers, **self._bearer.header()}
        timeout = httpx.Timeout(silence_s, connect=min(silence_s, _CONNECT_PATIENCE_S))
        try:
            with self._reads.stream("GET", path, headers=sent, timeout=timeout) as response:
                if not response.is_success:
                    body = self._read(response, time.monotonic() + silence_s)
                    raise self._refused(response, body, request)
                yield from self._split(response)
        except httpx.ReadTimeout:
            silent = ServiceError(f"`{self._access.url}` has sent nothing for {silence_s:g} s")
            silent.again = True
            raise silent from None
        except httpx.HTTPError as fault:
            raise self._failed(fault, request) from None

    def _split(self, response: httpx.Response) -> Iterator[bytes]:
        kept = bytearray()
        for chunk in response.iter_raw():
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield bytes(kept) + line
                kept.clear()
            kept += rest
            if len(kept) > MAX_LINE_BYTES:
                raise ServiceError(f"`{self._access.url}` sent a line of more than {MAX_LINE_BYTES} bytes")

    def _attempt(self, request: _Request, deadline: float) -> dict[str, object]:
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
            raise self._failed(fault, request) from None
        if not response.is_success:
            raise self._refused(response, body, request)
        reply = _json_object(body)
        if reply is None:
            raise ServiceError(
                f"`{self._access.url}` does not answer like Klamm; check the address (--klamm)",
                status=response.status_code,
                outcome_unknown=not request.idempotent,
            )
        return reply

    def _read(self, response: httpx.Response, deadline: float) -> bytes:
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > MAX_REPLY_BYTES:
                raise ServiceError(f"`{self._access.url}` sent more than {MAX_REPLY_BYTES} bytes; ask for less")
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the answer was not complete in time", request=response.request)
        return bytes(body)

    def _refused(self, response: httpx.Response, body: bytes, request: _Request) -> ServiceError:
        status, url = response.status_code, self._access.url
        problem = _problem(body)
        # A 503 from Klamm itself says that nothing was done.
        unknown = (
            not request.idempotent
            and status >= httpx.codes.INTERNAL_SERVER_ERROR
            and not (problem is not None and status == httpx.codes.SERVICE_UNAVAILABLE)
        )
        code = None
        if response.is_redirect:
            target = response.headers.get("location", "")[:_SHOWN_CHARACTERS]
            text = (
                f"`{url}` redirects to `{target}`, and redirects are not followed; name the service itself with --klamm"
            )
        elif problem is None:
            text = (
                f"`{url}` answered {status} {response.reason_phrase}, which is not an answer of Klamm; is it the "
                "right address?"
            )
            text += f" {_NO_PATH}" if _has_path(url) else ""
            text += f" {_LOOK_FIRST}" if unknown else ""
        else:
            code = str(problem["code"])
            words = [f"{code}: {_details(problem)}"]
            if status in _HINTS:
                words.append(_HINTS[status])
            if status == httpx.codes.NOT_FOUND and _has_path(url):
                words.append(_NO_PATH)
            if unknown:
                words.append(_LOOK_FIRST)
            text = "; ".join(words)
        error = ServiceError(text, code=code, status=status, outcome_unknown=unknown)
        # After a 504 it is unknown whether an update was made. A proxy's own answer does not say either.
        is_retriable = problem is not None and problem.get("retriable") is True
        error.again = status in _PASSING_STATUS and (request.idempotent or (status in (429, 503) and is_retriable))
        error.wait_s = _retry_after_s(response)
        error.oldest_token = None if problem is None else text_or_none(problem, "oldest_token")
        return error

    def _failed(self, fault: httpx.HTTPError, request: _Request) -> ServiceError:
        url = self._access.url
        if isinstance(fault, httpx.ConnectError | httpx.ConnectTimeout):
            reason, passing = _reason(fault)
            way_out = "name its address with --klamm" if passing else "check --klamm and --ca"
            is_it = "is it running there (klamm serve --uds)?" if url.startswith(UNIX) else "is it running there?"
            text = f"can't reach Klamm at `{url}` ({reason}); {is_it}{'' if url.startswith(UNIX) else f' {way_out}'}"
            error = ServiceError(text)
            error.again, error.answered = passing, False
            return error
        if not request.idempotent:
            return ServiceError(f"`{url}` gave no answer, so {_LOOK_FIRST}", outcome_unknown=True)
        if isinstance(fault, httpx.TimeoutException):
            return ServiceError(f"`{url}` did not answer in time; give it longer with --timeout")
        way_out = "if it has TLS, write https:// (--klamm)" if url.startswith("http://") else "see the service's log"
        error = ServiceError(f"`{url}` closed the connection; {way_out}")
        error.again = True
        return error


def _reason(fault: httpx.HTTPError) -> tuple[str, bool]:
    if isinstance(fault, httpx.TimeoutException):
        return "no answer", False
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}", False
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {cause.reason or cause.strerror}", False
        if isinstance(cause, socket.gaierror):
            return "no such host", cause.errno == socket.EAI_AGAIN
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower(), not isinstance(cause, PermissionError)
        cause = cause.__cause__ or cause.__context__
    return str(fault) or "no connection", True


def _json_object(body: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _problem(body: bytes) -> dict[str, object] | None:
    """A refusal by Klamm itself (RFC 9457); None for anything else, such as a proxy's page."""
    value = _json_object(body)
    return value if value is not None and isinstance(value.get("code"), str) else None


def _has_path(url: str) -> bool:
    return not url.startswith(UNIX) and httpx.URL(url).path != "/"


def _details(problem: dict[str, object]) -> str:
    errors = problem.get("errors")
    fields = [
        f"`{each.get('pointer')}`: {each.get('detail')}" if each.get("pointer") else str(each.get("detail"))
        for each in (errors if isinstance(errors, list) else [])
        if isinstance(each, dict)
    ]
    return "; ".join(fields[:_MAX_FIELDS]) or str(problem.get("detail") or problem.get("title") or "no reason given")


def _retry_after_s(response: httpx.Response) -> float:
    """0 if the service asks for no wait, or its header can't be read."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0
