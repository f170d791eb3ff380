"""Credentials to callers: bearer tokens (static ones and JWTs) and client certificates.

One that shows a token is judged by the token, whatever certificate it has. What was found good is remembered by the
hash of the header, so that a request costs a hash and a look-up; a JWT for a minute at most, and never past its end.
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
from typing import Protocol

from app.core.kafka.errors import ClusterAuthorizationException, SaslAuthenticationException
from app.logs.service import REQUEST_MARK
from app.metrics.declared import Metrics
from app.rest.callers.roles import ANYBODY, Caller, Role, TokenRefusedError
from app.rest.callers.static_tokens import StaticTokens
from app.runtime.deadlines import stop

_MAX_REMEMBERED = 4_096
_REMEMBER_S = 60.0
_LOOK_S = 1.0
_SCHEME = b"bearer "
_MAX_TOKEN_BYTES = 8 * 1024
_JWT_DOTS = 2
# One body for whatever is wrong: what was wrong is the operator's to know.
_REFUSAL = "credentials are needed that this service knows; send `Authorization: Bearer` with a token, or a certificate"

_log = logging.getLogger(__name__)

Headers = Sequence[tuple[bytes, bytes]]


class Verified(Protocol):
    """What a good JWT says of its bearer; `expires_at` on the scale of time.time()."""

    @property
    def issuer_name(self) -> str:
        """The name of its issuer's table."""

    @property
    def subject(self) -> str:
        """Its `sub`."""

    @property
    def expires_at(self) -> float:
        """When it ends, leeway included."""


class TokenVerifier(Protocol):
    """Checks JWTs; `generation` rises whenever the keys change."""

    @property
    def generation(self) -> int:
        """A number of the keys in force."""

    async def verify(self, token: str) -> Verified:
        """Raises TokenRefusedError."""

    def open(self) -> None:
        """Begin to follow the keys."""

    async def close(self) -> None:
        """Follow them no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who is configured, and by what each of them proves itself."""

    callers: Mapping[str, Caller]
    tokens: StaticTokens | None = None
    jwts: TokenVerifier | None = None
    subjects: Mapping[tuple[str, str], Caller] = field(default_factory=lambda: MappingProxyType({}))
    """Callers by name of the issuer and `sub`."""
    certificates: Mapping[str, Caller] = field(default_factory=lambda: MappingProxyType({}))
    """Callers by a name in their certificate."""


class Callers:
    """Tells who a request comes from. Without credentials configured, everyone is ANYBODY."""

    def __init__(self, credentials: Credentials | None, metrics: Metrics) -> None:
        self._credentials = credentials
        self._remembered: dict[bytes, tuple[bytes, Caller, float]] = {}
        self._generation = _generation_of(credentials)
        self._refusals = _Refusals(metrics)
        self._watching: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to follow changes of tokens and keys."""
        if self._credentials is None:
            return
        if self._credentials.jwts is not None:
            self._credentials.jwts.open()
        self._watching = asyncio.create_task(self._watch(), name="klamm-callers")

    async def close(self) -> None:
        """Follow no more."""
        if self._watching is not None:
            await stop(self._watching)
        if self._credentials is not None and self._credentials.jwts is not None:
            await self._credentials.jwts.close()

    def known(self, fields: Mapping[bytes, bytes], names: Sequence[str]) -> Caller | None:
        """The caller, if a look tells; None says nothing. An authorization header must be the only one."""
        if self._credentials is None:
            return None if b"origin" in fields else ANYBODY
        header = fields.get(b"authorization")
        if header is None:
            return _by_certificate(self._credentials, names) if names else None
        return self._remembered_for(hashlib.sha256(header).digest())

    async def admitted(
        self,
        operation: str,
        open_to: Container[Role],
        headers: Headers,
        names: Sequence[str],
        look_further: Callable[[], None] | None = None,
    ) -> Caller:
        """The caller of this operation, which it may call; `look_further` is called if a look does not tell.

        Raises SaslAuthenticationException, ClusterAuthorizationException, ThrottlingQuotaExceededException.
        """
        caller = self.known(dict(headers), names) if shows_one_at_most(headers) else None
        if caller is None:
            if look_further is not None:
                look_further()
            caller = await self._authenticated(headers, names)
        mark = REQUEST_MARK.get()
        if mark is not None and caller is not ANYBODY:
            mark.caller = caller.name
        caller.check_operation(operation, open_to)
        return caller

    async def _authenticated(self, headers: Headers, names: Sequence[str]) -> Caller:
        credentials = self._credentials
        if credentials is None:
            if any(name == b"origin" for name, _ in headers):
                # A page in somebody's browser can reach loopback, and must not speak for anybody there.
                raise ClusterAuthorizationException("browsers may not ask here, as no callers are configured")
            return ANYBODY
        try:
            lines = [value for name, value in headers if name == b"authorization"]
            if lines:
                return await self._by_header(credentials, lines)
            return _bearer_of(credentials, names)
        except TokenRefusedError as refused:
            self._refusals.note(refused.reason)
            raise SaslAuthenticationException(_REFUSAL) from None
        finally:
            # To look for this one may have shown that others are gone.
            self._forget_if_changed()

    async def _by_header(self, credentials: Credentials, lines: Sequence[bytes]) -> Caller:
        header = lines[0]
        if len(lines) > 1:
            raise TokenRefusedError("header_repeated")
        if header[: len(_SCHEME)].lower() != _SCHEME:
            raise TokenRefusedError("not_bearer")
        if len(header) > _MAX_TOKEN_BYTES:
            raise TokenRefusedError("token_too_long")
        digest = hashlib.sha256(header).digest()
        token, generation = header[len(_SCHEME) :].strip(), _generation_of(credentials)
        caller, until = await _by_token(credentials, token)
        if _generation_of(credentials) == generation:
            # INVARIANT: what was found under tokens and keys of the past is not remembered.
            self._remember(digest, caller, until)
        return caller

    def _remembered_for(self, digest: bytes) -> Caller | None:
        found = self._remembered.get(digest)
        if found is None or not hmac.compare_digest(found[0], digest) or found[2] < time.time():
            return None
        return found[1]

    def _remember(self, digest: bytes, caller: Caller, until: float) -> None:
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[digest] = (digest, caller, until)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                credentials = self._credentials
                if credentials is not None and credentials.tokens is not None:
                    await credentials.tokens.look()
                self._forget_if_changed()
            except Exception:  # noqa: BLE001 - one that nobody foresaw must not end the looking
                _log.exception("callers_not_followed")

    def _forget_if_changed(self) -> None:
        generation = _generation_of(self._credentials)
        if generation != self._generation:
            self._generation = generation
            self._remembered.clear()


class _Refusals:
    """Counts refusals by reason, and logs at most one a second for each."""

    def __init__(self, metrics: Metrics) -> None:
        self._counts = metrics.callers_refused
        self._logged_at: dict[str, float] = {}
        self._logged: dict[str, int] = {}

    def note(self, reason: str) -> None:
        """Count one."""
        count = self._counts[reason] = self._counts.get(reason, 0) + 1
        now = time.monotonic()
        if now - self._logged_at.get(reason, -_LOOK_S) >= _LOOK_S:
            self._logged_at[reason] = now
            times = count - self._logged.get(reason, 0)
            self._logged[reason] = count
            _log.warning("caller_refused", extra={"reason": reason, "times": times})


def shows_one_at_most(headers: Headers) -> bool:
    """Whether no second authorization header contradicts the first; `known` must be asked of no others."""
    return sum(name == b"authorization" for name, _ in headers) <= 1


def _generation_of(credentials: Credentials | None) -> tuple[int, int]:
    """Which tokens and which keys are in force."""
    if credentials is None:
        return 0, 0
    tokens, jwts = credentials.tokens, credentials.jwts
    return 0 if tokens is None else tokens.generation, 0 if jwts is None else jwts.generation


async def _by_token(credentials: Credentials, token: bytes) -> tuple[Caller, float]:
    """Who bears this token, and until when that may be remembered."""
    if credentials.jwts is not None and token.count(b".") == _JWT_DOTS:
        verified = await credentials.jwts.verify(token.decode("ascii", "replace"))
        caller = credentials.subjects.get((verified.issuer_name, verified.subject))
        if caller is None:
            raise TokenRefusedError("jwt_subject_unknown")
        return caller, min(verified.expires_at, time.time() + _REMEMBER_S)
    caller = None if credentials.tokens is None else await credentials.tokens.bearer_of(token)
    if caller is None:
        raise TokenRefusedError("token_unknown")
    return caller, math.inf


def _by_certificate(credentials: Credentials, names: Sequence[str]) -> Caller | None:
    """The one caller that a certificate's names are of."""
    found = {caller for name in names if (caller := credentials.certificates.get(name)) is not None}
    return found.pop() if len(found) == 1 else None


def _bearer_of(credentials: Credentials, names: Sequence[str]) -> Caller:
    caller = _by_certificate(credentials, names)
    if caller is None:
        raise TokenRefusedError("certificate_unknown" if names else "no_credentials")
    return caller
