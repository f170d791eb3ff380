"""JSON Web Tokens (RFC 7519, RFC 8725) of configured issuers, verified by PyJWT.

They may be tokens of Kubernetes service accounts: issuer and audience as the cluster writes them, the keys at its URL
`/openid/v1/jwks`, with the cluster's `ca_file` and, as `bearer_file`, Klamm's own token.
"""

import binascii
import sys
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import jwt
import msgspec
from jwt.exceptions import InvalidSubjectError

from app.rest.callers.key_sets import KeySet
from app.rest.callers.roles import TokenRefusedError
from app.rest.callers.signing_keys import ALGORITHMS

MAX_TOKEN_BYTES = 8 * 1024
MAX_LEEWAY_S = 60
_PARTS = 3
_REQUIRED = ("exp", "iss", "aud", "sub")

REASONS = frozenset(
    {
        *("jwt_too_long", "jwt_malformed", "jwt_critical_header"),
        *("jwt_issuer", "jwt_audience", "jwt_subject"),
        *("jwt_algorithm", "jwt_keys_never_read", "jwt_unknown_key", "jwt_key_algorithm", "jwt_signature"),
        *("jwt_expired", "jwt_not_yet_valid"),
        *(f"jwt_missing_{claim}" for claim in _REQUIRED),
    }
)


@dataclass(frozen=True, slots=True)
class Issuer:
    """Raises ValueError for an issuer that would accept too much."""

    name: str
    issuer: str
    audience: str
    algorithms: frozenset[str]
    leeway_s: int
    keys: KeySet

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience:
            raise ValueError(
                f"issuer `{self.name}`: `issuer` and `audience` are required; without them any token would be accepted"
            )
        if not self.algorithms or not self.algorithms <= ALGORITHMS.keys():
            raise ValueError(f"issuer `{self.name}`: `algorithms` must be some of {', '.join(ALGORITHMS)}")
        if not 0 <= self.leeway_s <= MAX_LEEWAY_S:
            raise ValueError(f"issuer `{self.name}`: `leeway_s` must be 0 to {MAX_LEEWAY_S}")


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """`expires_at` is on the clock of `time.time()`, leeway included."""

    issuer_name: str
    subject: str
    expires_at: float
    claims: Mapping[str, object] = field(default_factory=dict, compare=False)


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    crit: msgspec.Raw = msgspec.Raw()


class _Claims(msgspec.Struct):
    iss: str | None = None


_headers = msgspec.json.Decoder(_Header)
_claims = msgspec.json.Decoder(_Claims)
_tokens = jwt.PyJWT(
    {
        "require": list(_REQUIRED),
        "enforce_minimum_key_length": True,
        # Times are checked below, and must be numbers.
        "verify_exp": False,
        "verify_nbf": False,
        "verify_iat": False,
    }
)


class JwtVerifier:
    """Verifies tokens of these issuers. Raises ValueError if two of them have the same `iss`."""

    def __init__(self, issuers: Sequence[Issuer]) -> None:
        self._issuers = {issuer.issuer: issuer for issuer in issuers}
        if len(self._issuers) < len(issuers):
            raise ValueError("two issuer tables have the same `issuer`; keep one table per issuer")

    @property
    def generation(self) -> int:
        """Rises whenever keys have changed: earlier results must be forgotten then."""
        return sum(issuer.keys.generation for issuer in self._issuers.values())

    def open(self) -> None:
        for issuer in self._issuers.values():
            issuer.keys.open()

    async def close(self) -> None:
        for issuer in self._issuers.values():
            await issuer.keys.close()

    async def verify(self, token: str) -> VerifiedToken:
        """Raises TokenRefusedError.

        If the key is unknown, the issuer's keys are read once more; this waits a few seconds for them at most.
        """
        header, claimed = _glance(token)
        issuer = self._issuers.get(claimed.iss or "")
        if issuer is None:
            raise TokenRefusedError("jwt_missing_iss" if claimed.iss is None else "jwt_issuer")
        if header.alg not in issuer.algorithms:
            raise TokenRefusedError("jwt_algorithm")
        if issuer.keys.key(header.kid, header.alg) is None:
            await issuer.keys.look_again()
        return self._check(token, header, issuer)

    def _check(self, token: str, header: _Header, issuer: Issuer) -> VerifiedToken:
        key = issuer.keys.key(header.kid, header.alg)
        if key is None:
            if not issuer.keys.was_read:
                raise TokenRefusedError("jwt_keys_never_read")
            is_known = header.kid is not None and issuer.keys.knows(header.kid)
            raise TokenRefusedError("jwt_key_algorithm" if is_known else "jwt_unknown_key")
        try:
            # INVARIANT: PyJWT reads the token itself; `_glance` only chose the issuer and the key.
            claims = _tokens.decode(token, key, algorithms=[header.alg], audience=issuer.audience, issuer=issuer.issuer)
        except jwt.PyJWTError as error:
            raise TokenRefusedError(_reason_of(error)) from None
        if not claims["sub"].strip():
            raise TokenRefusedError("jwt_missing_sub")
        expires_at = check_times(claims, issuer.leeway_s, time.time())
        return VerifiedToken(issuer.name, claims["sub"], expires_at, claims)


def check_times(claims: Mapping[str, object], leeway_s: int, now: float) -> float:
    """Until when the token is valid, in seconds since 1970, leeway included. Raises TokenRefusedError."""
    expires_at = _time_of(claims["exp"]) + leeway_s
    if expires_at <= now:
        raise TokenRefusedError("jwt_expired")
    for name in ("nbf", "iat"):
        if name in claims and _time_of(claims[name]) > now + leeway_s:
            raise TokenRefusedError("jwt_not_yet_valid")
    return expires_at


def _glance(token: str) -> tuple[_Header, _Claims]:
    if len(token) > MAX_TOKEN_BYTES:
        raise TokenRefusedError("jwt_too_long")
    parts = token.split(".")
    if len(parts) != _PARTS or not token.isascii():
        raise TokenRefusedError("jwt_malformed")
    try:
        protected, payload, _ = map(_decoded, parts)
        header, claims = _headers.decode(protected), _claims.decode(payload)
    except (msgspec.MsgspecError, binascii.Error, UnicodeDecodeError, RecursionError):
        raise TokenRefusedError("jwt_malformed") from None
    if bytes(header.crit):
        # No extensions are understood. Keys in the header (jwk, jku, x5u) are never used.
        raise TokenRefusedError("jwt_critical_header")
    return header, claims


def _decoded(part: str) -> bytes:
    """Raises binascii.Error unless it is base64url as RFC 7515 has it.

    INVARIANT: all bytes have one text, without padding, white space, `+`, `/` or bits that stand for nothing, whatever
    the decoders let pass.
    """
    decoded = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if urlsafe_b64encode(decoded).rstrip(b"=") != part.encode():
        raise binascii.Error("not base64url without padding")
    return decoded


def _reason_of(error: jwt.PyJWTError) -> str:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"jwt_missing_{error.claim}"
    reasons = {
        jwt.InvalidSignatureError: "jwt_signature",
        jwt.InvalidAudienceError: "jwt_audience",
        jwt.InvalidIssuerError: "jwt_issuer",
        InvalidSubjectError: "jwt_subject",
        jwt.InvalidAlgorithmError: "jwt_algorithm",
    }
    return next((reason for kind, reason in reasons.items() if isinstance(error, kind)), "jwt_malformed")


def _time_of(value: object) -> float:
    # NaN and infinities are no times; an int may be larger than any float.
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
        return float(value)
    raise TokenRefusedError("jwt_malformed")
