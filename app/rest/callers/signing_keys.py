"""The public keys of a JSON Web Key Set (RFC 7517) that signatures may be checked with."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt import PyJWK, PyJWTError

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

# INVARIANT: none of these is symmetric, so nobody can make a token with the key that checks it.
ALGORITHMS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
        "ES256": "P-256",
        "ES384": "P-384",
        "ES512": "P-521",
        "EdDSA": "Ed25519",
    }
)
"""Signature algorithms (RFC 7518, RFC 8037) and the kind of key that each needs."""

_ANY_OF_KIND: Mapping[str, str] = MappingProxyType({kind: algorithm for algorithm, kind in ALGORITHMS.items()})
_MAX_KEYS = 64
_RSA_BITS = range(2048, 8192 + 1)
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


class KeySetError(Exception):
    """A set of keys can't be read; one line for the operator, without secrets."""


class _IgnoredError(Exception):
    """An entry can't be used; its text is one word that says why."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """Two are equal if they are the same key, with the same name, for the same use."""

    kid: str | None
    algorithm: str | None
    kind: str
    der: bytes = field(repr=False)
    public: PublicKey = field(compare=False, repr=False)

    def fits(self, algorithm: str) -> bool:
        return self.algorithm in {None, algorithm} and ALGORITHMS.get(algorithm) == self.kind


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of one issuer. `ignored` counts its other entries by reason."""

    keys: frozenset[SigningKey] = frozenset()
    ignored: Mapping[str, int] = field(default_factory=dict, compare=False)

    def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The key with this name (any, for None) that fits the algorithm; None unless there is exactly one."""
        found = {key.der: key.public for key in self.keys if kid in {None, key.kid} and key.fits(algorithm)}
        # INVARIANT: a token is checked with one key only: if several fit, none is used.
        return next(iter(found.values())) if len(found) == 1 else None

    def knows(self, kid: str | None) -> bool:
        return any(key.kid == kid for key in self.keys)


def read_key_set(document: bytes) -> SigningKeys:
    """Raises KeySetError for anything that is no set of keys, or is too large."""
    try:
        value = json.loads(document)
    except (ValueError, RecursionError):
        raise KeySetError("it is not JSON") from None
    entries = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise KeySetError("it is not a JSON Web Key Set: the list `keys` is missing")
    if len(entries) > _MAX_KEYS:
        raise KeySetError(f"it has {len(entries)} keys; at most {_MAX_KEYS} are supported")
    keys = set()
    ignored: Counter[str] = Counter()
    for entry in entries:
        try:
            keys.add(_key_of(entry))
        except _IgnoredError as why:
            ignored[str(why)] += 1
    return SigningKeys(frozenset(keys), dict(ignored))


def _key_of(entry: object) -> SigningKey:
    if not isinstance(entry, dict):
        raise _IgnoredError("malformed")
    _check_use(entry)
    kind = "RSA" if entry.get("kty") == "RSA" else entry.get("crv")
    if not isinstance(kind, str) or kind not in _ANY_OF_KIND:
        raise _IgnoredError("unsupported")
    kid, algorithm = entry.get("kid"), entry.get("alg")
    if not isinstance(kid, str | None) or not isinstance(algorithm, str | None):
        raise _IgnoredError("malformed")
    if algorithm is not None and ALGORITHMS.get(algorithm) != kind:
        raise _IgnoredError("unsupported")
    public = _public_key(entry, kind)
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return SigningKey(kid, algorithm, kind, der, public)


def _public_key(entry: dict[str, Any], kind: str) -> PublicKey:
    try:
        public = PyJWK(entry, _ANY_OF_KIND[kind]).key
    except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, AttributeError, KeyError, OverflowError):
        raise _IgnoredError("malformed") from None
    if not isinstance(public, PublicKey):
        raise _IgnoredError("malformed")
    if isinstance(public, RSAPublicKey) and public.key_size not in _RSA_BITS:
        raise _IgnoredError("rsa_size")
    return public


def _check_use(entry: Mapping[str, Any]) -> None:
    if entry.get("kty") == "oct":
        raise _IgnoredError("symmetric")
    # With its private half published, anybody can sign with it.
    if _PRIVATE & entry.keys():
        raise _IgnoredError("private")
    operations = entry.get("key_ops", ["verify"])
    if entry.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        raise _IgnoredError("not_for_signatures")
