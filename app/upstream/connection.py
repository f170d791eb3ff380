"""Connections to the upstream services: addresses, credentials, trust, and every refusal as one exception."""

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import MappingProxyType

import httpx
import msgspec

from app.core.kafka.errors import (
    ApiException,
    ClusterAuthorizationException,
    InvalidRequestException,
    InvalidUpdateVersionException,
    OffsetNotAvailableException,
    OffsetOutOfRangeException,
    OverloadedException,
    PolicyViolationException,
    RequestTimedOutException,
    SecurityDisabledException,
    StoreUnavailableException,
    ThrottlingQuotaExceededException,
    TokenEpochInvalidException,
    TokenEpochMismatchException,
    UnknownServerException,
)
from app.formats.clock import SYSTEM_CLOCK, Clock
from app.formats.command_errors import UsageError
from app.formats.secret_files import refuse_if_open

MAX_REPLY_BYTES = 128 * 1024 * 1024
"""More than the reply to any update can hold."""
_MAX_PROBLEM_BYTES = 256 * 1024
_MAX_DETAIL = 4_096
"""In characters: what is handed on to the caller of an update."""
_MAX_LOGGED = 200
_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}+")
_CONNECT_S = 3.0
_KEPT_S = 30.0
"""Less than a service keeps an idle connection, so that no update meets one that is just being closed."""
_MAX_TOKEN_BYTES = 16 * 1024
_BEARER = re.compile(r"[!-~]{1,16384}+")
_KNOWN = {
    each.error.value: each
    for each in (
        ClusterAuthorizationException,
        InvalidRequestException,
        InvalidUpdateVersionException,
        OffsetNotAvailableException,
        OffsetOutOfRangeException,
        OverloadedException,
        PolicyViolationException,
        RequestTimedOutException,
        SecurityDisabledException,
        StoreUnavailableException,
        ThrottlingQuotaExceededException,
        TokenEpochInvalidException,
        TokenEpochMismatchException,
        UnknownServerException,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamOptions:
    """`follower` is this service's own id in chains of followers, the same for all its workers."""

    urls: Sequence[str]
    """http://host:port or https://host:port, each a service that this one may follow."""
    follower: str
    clock: Clock = SYSTEM_CLOCK
    token_file: Path | None = None
    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    bookmark_s: float = 1.0
    request_timeout_s: float = 5.0
    """For updates that are handed on."""


class Problem(msgspec.Struct):
    """The part of a refusal that is read (RFC 9457). `detail` is cut, and does not hold this follower's token."""

    code: str
    detail: str = ""
    oldest_token: str | None = None
    chain: tuple[str, ...] = ()


class RefusedError(Exception):
    """The upstream has refused. `problem` is None if the answer is not one of Klamm's.

    INVARIANT: its text holds the code only. It is shown by `/readyz`, which is open to anybody.
    """

    def __init__(self, status: int, problem: Problem | None) -> None:
        super().__init__(f"status {status}" if problem is None else problem.code)
        self.status = status
        self.problem = problem

    @property
    def code(self) -> str | None:
        return None if self.problem is None else self.problem.code

    @property
    def detail(self) -> str:
        return "" if self.problem is None else self.problem.detail


class Connection:
    """All requests to upstream services. Files are read for each request, as tokens and authorities are renewed."""

    def __init__(self, options: UpstreamOptions) -> None:
        self.options = options
        self.where: str | None = None
        """The service that is being followed; None while there is none, and `why` says why."""
        self.why = "not connected yet"
        self._clients: list[httpx.AsyncClient] = []
        """The last one is in use; the others trust what the files held earlier."""
        self._trusted: object = None
        self._making = Lock()

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        idle_s: float,
        content: bytes | None = None,
        fields: Mapping[str, str] = MappingProxyType({}),
    ) -> AsyncIterator[httpx.Response]:
        """A reply with status 200 whose body is still to be read. `fields` are further headers of the request.

        Raises RefusedError, StoreUnavailableException if nothing has been sent, httpx.HTTPError otherwise. `idle_s`
        bounds each wait for data, and not all of them together: bound that as well.
        """
        headers, client = await asyncio.to_thread(self._prepared)
        headers.update(fields)
        if content is not None:
            headers["content-type"] = "application/json"
        timeout = httpx.Timeout(idle_s, connect=_CONNECT_S, pool=_CONNECT_S)
        request = client.build_request(method, url, content=content, headers=headers, timeout=timeout)
        try:
            response = await client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol) as fault:
            raise StoreUnavailableException(
                f"the upstream `{_shown(url)}` can't be reached ({_reason(fault)})"
            ) from None
        try:
            if response.status_code != httpx.codes.OK:
                raise RefusedError(response.status_code, await _problem_in(response, headers.get("authorization", "")))
            yield response
        finally:
            await response.aclose()

    async def answer(self, url: str, content: bytes, timeout_s: float) -> bytes:
        """The whole reply to a POST; raises as `stream` does."""
        async with self.stream("POST", url, idle_s=timeout_s, content=content) as response:
            return await _body_of(response, MAX_REPLY_BYTES)

    def _prepared(self) -> tuple[dict[str, str], httpx.AsyncClient]:
        options = self.options
        headers = {"accept-encoding": "identity", "user-agent": "klamm"}
        if options.token_file is not None:
            headers["authorization"] = f"Bearer {_token_in(options.token_file)}"
        files = [each for each in (options.ca_file, options.certificate, options.key) if each is not None]
        try:
            with self._making:
                stamps = [(each.stat().st_mtime_ns, each.stat().st_ino) for each in files]
                if not self._clients or stamps != self._trusted:
                    self._clients.append(self._new_client())
                    self._trusted = stamps
                return headers, self._clients[-1]
        except OSError as error:
            names = ", ".join(f"`{each}`" for each in files)
            why = error.strerror or "no certificates in PEM"
            raise StoreUnavailableException(f"files for the upstream can't be used: {names} ({why})") from None

    def _new_client(self) -> httpx.AsyncClient:
        options = self.options
        trust = ssl.create_default_context(cafile=options.ca_file)
        trust.minimum_version = ssl.TLSVersion.TLSv1_2
        if options.certificate is not None and options.key is not None:
            _refuse_open_key(options.key)
            # With no password at all, OpenSSL would ask for one at the terminal.
            trust.load_cert_chain(options.certificate, options.key, password="")
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=_KEPT_S)
        # INVARIANT: only the settings say which service is followed: no redirects, no proxies from the environment.
        return httpx.AsyncClient(verify=trust, follow_redirects=False, trust_env=False, limits=limits)


def unavailable(url: str, fault: Exception) -> StoreUnavailableException:
    """The same refusal whatever made an upstream unusable.

    INVARIANT: nothing that the upstream has said is in it, except for a code.
    """
    if isinstance(fault, StoreUnavailableException):
        return fault
    shown = _shown(url)
    if isinstance(fault, RefusedError):
        if fault.status == httpx.codes.UNAUTHORIZED:
            return StoreUnavailableException(f"the upstream `{shown}` does not accept this follower's credentials")
        if fault.problem is None:
            return StoreUnavailableException(
                f"the upstream `{shown}` answers with status {fault.status}, but not as Klamm does"
            )
        return StoreUnavailableException(f"the upstream `{shown}` refused: {fault}")
    return StoreUnavailableException(f"the stream from the upstream `{shown}` broke ({_reason(fault)})")


def refusal_of(code: str, text: str) -> ApiException:
    """The upstream's refusal as it is; one of a kind that this version does not know loses its name."""
    return _KNOWN.get(code, UnknownServerException)(text or code)


def passed_on(url: str, refused: RefusedError) -> ApiException:
    """The upstream's own refusal, unless it is about this follower and not about its caller."""
    problem, status = refused.problem, refused.status
    if problem is None or status in (httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND):
        return unavailable(url, refused)
    if status == httpx.codes.SERVICE_UNAVAILABLE:
        return StoreUnavailableException(problem.detail)
    if problem.code == OffsetOutOfRangeException.error.value:
        return OffsetOutOfRangeException(problem.detail, problem.oldest_token)
    return refusal_of(problem.code, problem.detail)


def _refuse_open_key(path: Path) -> None:
    """Raises OSError, StoreUnavailableException."""
    try:
        with path.open("rb") as file:
            refuse_if_open(file, path, "upstream.key", "the private key")
    except UsageError as refusal:
        raise StoreUnavailableException(str(refusal)) from None


def _token_in(path: Path) -> str:
    try:
        with path.open("rb") as file:
            refuse_if_open(file, path, "upstream.token.file", "the token")
            token = file.read(_MAX_TOKEN_BYTES + 1).decode("latin-1").strip()
    except OSError as error:
        raise StoreUnavailableException(f"`{path}` (upstream.token.file) can't be read ({error.strerror})") from None
    except UsageError as refusal:
        raise StoreUnavailableException(str(refusal)) from None
    # A header with a line break would show up in the text of an error.
    if not _BEARER.fullmatch(token):
        raise StoreUnavailableException(f"`{path}` (upstream.token.file) does not hold a token on a single line")
    return token


async def _problem_in(response: httpx.Response, authorization: str) -> Problem | None:
    try:
        problem = msgspec.json.decode(await _body_of(response, _MAX_PROBLEM_BYTES), type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, httpx.HTTPError):
        return None
    if not _CODE.fullmatch(problem.code):
        return None
    # A proxy may echo the request.
    token = authorization.removeprefix("Bearer ")
    problem.detail = cut(problem.detail.replace(token, "***") if token else problem.detail, _MAX_DETAIL)
    return problem


def cut(text: str, most: int = _MAX_LOGGED) -> str:
    """At most so many characters, for the log.

    INVARIANT: the cut is between two words. The log masks secrets, and would not know a half of one.
    """
    return text if len(text) <= most else f"{text[:most].rpartition(' ')[0]}..."


async def _body_of(response: httpx.Response, most: int) -> bytes:
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > most:
            raise httpx.ReadError("the reply is too large", request=response.request)
    return bytes(body)


def _shown(url: str) -> str:
    """The URL without anything after the host."""
    parts = httpx.URL(url)
    return f"{parts.scheme}://{parts.netloc.decode('ascii')}"


def _reason(fault: BaseException) -> str:
    """INVARIANT: nothing that the upstream has sent, which texts about a breach of HTTP quote."""
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
            return os.strerror(cause.errno).lower()
        cause = cause.__cause__ or cause.__context__
    if isinstance(fault, httpx.ProtocolError):
        return "it was closed within a reply, or what it sent is not HTTP"
    return str(fault) or "no answer in time"
