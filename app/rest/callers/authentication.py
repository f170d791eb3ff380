"""Who sends a request, by its bearer token (a static one or a JWT) or its client certificate.

A request with a token is judged by the token, whatever its certificate. Good tokens are remembered by the hash of the
header, so that a request costs a hash and a look-up; JWTs for a minute at most, and never past their end.
"""

import asyncio
import hashlib
import hmac
import logging
import math
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from app.core.kafka.errors import SaslAuthenticationException
from app.logs.service import REQUEST_MARK
from app.metrics.declared import Metrics
from app.rest.callers.open_access import OpenAccess
from app.rest.callers.roles import Caller, Role, TokenRefusedError
from app.rest.callers.static_tokens import StaticTokens
from app.runtime.deadlines import stop

if TYPE_CHECKING:
    from app.rest.callers.jwt_tokens import JwtVerifier  # loaded only where callers have JWTs

_MAX_REMEMBERED = 4_096
_REMEMBER_S = 60.0
_LOOK_S = 1.0
_REMEMBER_REFUSED_S = 1.0
"""The file of tokens is looked at as often."""
_SCHEME = b"bearer "
_MAX_TOKEN_BYTES = 8 * 1024
_JWT_DOTS = 2
# The same text for every fault; the log tells the operator which one it was.
_REFUSAL = (
    "the request has no valid credentials; send `Authorization: Bearer` with a token, or use a client certificate"
)

_log = logging.getLogger(__name__)

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    callers: Mapping[str, Caller]
    tokens: StaticTokens | None = None
    jwts: "JwtVerifier | None" = None
    subjects: Mapping[tuple[str, str], Caller] = field(default_factory=lambda: MappingProxyType({}))
    """Callers by the issuer's name and `sub`."""
    certificates: Mapping[str, Caller] = field(default_factory=lambda: MappingProxyType({}))
    """Callers by a name in their certificate."""

    @property
    def generation(self) -> tuple[int, int]:
        """Changes with the tokens and keys in force."""
        return self.tokens.generation if self.tokens else 0, self.jwts.generation if self.jwts else 0

    async def by_token(self, token: bytes) -> tuple[Caller, float]:
        """The caller with this token, and the time until which it may be remembered. Raises TokenRefusedError."""
        if self.jwts is not None and token.count(b".") == _JWT_DOTS:
            verified = await self.jwts.verify(token.decode("ascii", "replace"))
            caller = self.subjects.get((verified.issuer_name, verified.subject))
            if caller is None:
                raise TokenRefusedError("jwt_subject_unknown")
            # INVARIANT: these groups belong to this token alone; the caller's next one may name others.
            return caller.proven_by(verified.claims), min(verified.expires_at, time.time() + _REMEMBER_S)
        caller = None if self.tokens is None else await self.tokens.bearer_of(token)
        if caller is None:
            raise TokenRefusedError("token_unknown")
        return caller, math.inf

    def by_certificate(self, names: Sequence[str]) -> Caller | None:
        """The caller with these names in its certificate; None also if they belong to several callers."""
        found = {caller for name in names if (caller := self.certificates.get(name)) is not None}
        return found.pop() if len(found) == 1 else None


class Callers:
    """Finds the caller of each request. Without credentials configured, access is open (`OpenAccess`)."""

    def __init__(self, credentials: Credentials | None, metrics: Metrics, *, on_unix_socket: bool = False) -> None:
        self._credentials = credentials
        self._open_access = OpenAccess(on_unix_socket=on_unix_socket)
        self._remembered: dict[bytes, tuple[bytes, Caller, float]] = {}
        self._refused: dict[bytes, tuple[str, float]] = {}
        """Why credentials were refused, and until when that may be said again, by the hash of the header."""
        self._generation = credentials.generation if credentials else None
        self._refusals = _Refusals(metrics)
        self._watching: asyncio.Task[None] | None = None

    def open(self) -> None:
        if self._credentials is None:
            return
        if self._credentials.jwts is not None:
            self._credentials.jwts.open()
        self._watching = asyncio.create_task(self._watch(self._credentials), name="klamm-callers")

    async def close(self) -> None:
        if self._watching is not None:
            await stop(self._watching)
        if self._credentials is not None and self._credentials.jwts is not None:
            await self._credentials.jwts.close()

    def known(self, fields: Mapping[bytes, bytes], names: Sequence[str]) -> Caller | None:
        """The caller, if it is remembered or needs no check; None proves nothing.

        For requests with one authorization header at most (`shows_one_at_most`).
        """
        if self._credentials is None:
            return self._open_access.known(fields)
        header = fields.get(b"authorization")
        if header is None:
            return self._credentials.by_certificate(names) if names else None
        digest = hashlib.sha256(header).digest()
        found = self._remembered.get(digest)
        if found is None or not hmac.compare_digest(found[0], digest) or found[2] < time.time():
            return None
        return found[1]

    def is_remembered(self, fields: Mapping[bytes, bytes], names: Sequence[str]) -> bool:
        """Whether these are valid credentials; without callers configured, nobody has any."""
        return self._credentials is not None and self.known(fields, names) is not None

    def refused_at_once(
        self, fields: Mapping[bytes, bytes], names: Sequence[str]
    ) -> SaslAuthenticationException | None:
        """The refusal of these credentials, counted, if it takes no look at files and keys; None proves nothing.

        For requests with one authorization header at most.
        """
        if self._credentials is None:
            return None
        header = fields.get(b"authorization")
        if header is None:
            found = self._credentials.by_certificate(names) if names else None
            reason = None if found is not None else _reason_of(names)
        else:
            reason = _fault_of(header) or self._remembered_refusal_of(header)
        if reason is None:
            return None
        self._refusals.note(reason)
        return SaslAuthenticationException(_REFUSAL)

    def _remembered_refusal_of(self, header: bytes) -> str | None:
        reason, until = self._refused.get(hashlib.sha256(header).digest(), (None, 0.0))
        return reason if time.monotonic() < until else None

    async def admitted(
        self,
        operation: str,
        open_to: Container[Role],
        headers: Headers,
        names: Sequence[str],
        look_further: Callable[[], None] | None = None,
    ) -> Caller:
        """The caller, which may call this operation. `look_further` is called before credentials are checked.

        Raises SaslAuthenticationException, ClusterAuthorizationException, ThrottlingQuotaExceededException.
        """
        caller = await self.identified(headers, names, look_further)
        mark = REQUEST_MARK.get()
        if mark is not None:
            mark.caller = caller.share
        caller.check_operation(operation, open_to)
        return caller

    async def identified(
        self, headers: Headers, names: Sequence[str], look_further: Callable[[], None] | None = None
    ) -> Caller:
        """Who sends this. Raises SaslAuthenticationException, ClusterAuthorizationException."""
        caller = self.known(dict(headers), names) if shows_one_at_most(headers) else None
        if caller is None:
            if look_further is not None:
                look_further()
            caller = await self._authenticated(headers, names)
        return caller

    def identified_without_token(self, headers: Headers, names: Sequence[str]) -> Caller | None:
        """The caller of a request that shows no token; None if nothing else says who sends it.

        Raises ClusterAuthorizationException.
        """
        if self._credentials is None:
            return self._open_access.identified(headers)
        return self._credentials.by_certificate(names)

    async def _authenticated(self, headers: Headers, names: Sequence[str]) -> Caller:
        credentials = self._credentials
        if credentials is None:
            return self._open_access.identified(headers)
        try:
            lines = [value for name, value in headers if name == b"authorization"]
            if lines:
                return await self._by_header(credentials, lines)
            return _found(credentials, names)
        except TokenRefusedError as refused:
            self._refusals.note(refused.reason)
            raise SaslAuthenticationException(_REFUSAL) from None
        finally:
            # The check may have read files again, and found others gone.
            self._forget_if_changed(credentials)

    async def _by_header(self, credentials: Credentials, lines: Sequence[bytes]) -> Caller:
        header = lines[0]
        if len(lines) > 1:
            raise TokenRefusedError("header_repeated")
        fault = _fault_of(header)
        if fault is not None:
            raise TokenRefusedError(fault)
        generation = credentials.generation
        try:
            caller, until = await credentials.by_token(header[len(_SCHEME) :].strip())
        except TokenRefusedError as refused:
            # INVARIANT: this is apart from what is remembered of callers, as anybody can fill it.
            if len(self._refused) >= _MAX_REMEMBERED:
                self._refused.clear()
            until = time.monotonic() + _REMEMBER_REFUSED_S
            self._refused[hashlib.sha256(header).digest()] = (refused.reason, until)
            raise
        if credentials.generation == generation:
            # INVARIANT: what was found with tokens and keys that are no longer in force is not remembered.
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            digest = hashlib.sha256(header).digest()
            self._remembered[digest] = (digest, caller, until)
        return caller

    async def _watch(self, credentials: Credentials) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                if credentials.tokens is not None:
                    await credentials.tokens.look()
                self._forget_if_changed(credentials)
            except Exception:  # noqa: BLE001 - an unexpected fault must not end the watching
                _log.exception("callers_not_followed")

    def _forget_if_changed(self, credentials: Credentials) -> None:
        if credentials.generation != self._generation:
            self._generation = credentials.generation
            self._remembered.clear()
            self._refused.clear()


def _found(credentials: Credentials, names: Sequence[str]) -> Caller:
    caller = credentials.by_certificate(names)
    if caller is None:
        raise TokenRefusedError(_reason_of(names))
    return caller


def _reason_of(names: Sequence[str]) -> str:
    return "certificate_unknown" if names else "no_credentials"


def _fault_of(header: bytes) -> str | None:
    """Why this header holds no token that could be valid."""
    if header[: len(_SCHEME)].lower() != _SCHEME:
        return "not_bearer"
    return "token_too_long" if len(header) > _MAX_TOKEN_BYTES else None


class _Refusals:
    """Counts refusals by reason, and logs at most one a second for each."""

    def __init__(self, metrics: Metrics) -> None:
        self._counts = metrics.callers_refused
        self._logged_at: dict[str, float] = {}
        self._logged: dict[str, int] = {}

    def note(self, reason: str) -> None:
        count = self._counts[reason] = self._counts.get(reason, 0) + 1
        now = time.monotonic()
        if now - self._logged_at.get(reason, -_LOOK_S) >= _LOOK_S:
            self._logged_at[reason] = now
            times = count - self._logged.get(reason, 0)
            self._logged[reason] = count
            _log.warning("caller_refused", extra={"reason": reason, "times": times})


def shows_one_at_most(headers: Headers) -> bool:
    """Whether there is one authorization header at most, so that no second one contradicts it."""
    return sum(name == b"authorization" for name, _ in headers) <= 1
