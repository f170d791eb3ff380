"""Issuers of JSON Web Tokens for tests: keys, their published sets, and tokens signed with them."""

import json
import time
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

Json = dict[str, Any]
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

ISSUER = "https://issuer.example/"
AUDIENCE = "klamm"
SUBJECT = "orders-service"


class Key:
    """A private key and how it is published; `algorithm` is what it signs with.

    Its tokens are issued at `now`, in seconds since 1970; else when they are asked for.
    """

    def __init__(
        self, kid: str | None, algorithm: str = "ES256", *, private: PrivateKey | None = None, now: int | None = None
    ) -> None:
        self.kid = kid
        self.algorithm = algorithm
        self.now = now
        self.private = private or _new_key(algorithm)

    def jwk(self, **more: object) -> Json:
        """The public half, as a set holds it; None takes a member away."""
        public = self.private.public_key()
        value: Json
        if isinstance(public, rsa.RSAPublicKey):
            value = RSAAlgorithm.to_jwk(public, as_dict=True)
        elif isinstance(public, ec.EllipticCurvePublicKey):
            value = ECAlgorithm.to_jwk(public, as_dict=True)
        else:
            value = OKPAlgorithm.to_jwk(public, as_dict=True)
        value.pop("key_ops", None)
        value |= {"kid": self.kid, "use": "sig", **more}
        return {name: each for name, each in value.items() if each is not None}

    def sign(self, claims: Mapping[str, object], **headers: object) -> str:
        """A token that says this. `headers` come beside `alg` and `kid`."""
        named = {} if self.kid is None else {"kid": self.kid}
        # PyJWT's own `encode` would not sign some of the claims that must be refused.
        return jwt.PyJWS().encode(
            json.dumps(claims).encode(), self.private, self.algorithm, headers={**named, **headers}
        )

    def token(self, **more: object) -> str:
        """A good token but for these claims; None takes a claim away."""
        return self.sign(claims(self.now, **more))


def claims(now: int | None = None, **more: object) -> Json:
    """What a good token issued now, or at this time, says but for these; None takes a claim away."""
    # Long, as tables of tokens are made when a run begins.
    now = int(time.time()) if now is None else now
    value = {"iss": ISSUER, "aud": AUDIENCE, "sub": SUBJECT, "iat": now, "exp": now + 86_400, **more}
    return {name: each for name, each in value.items() if each is not None}


def key_set(*keys: Key | Json) -> bytes:
    """The document that publishes these."""
    return json.dumps({"keys": [each.jwk() if isinstance(each, Key) else each for each in keys]}).encode()


def issuer_table(name: str, jwks: str, *, issuer: str = ISSUER, audience: str = AUDIENCE) -> str:
    """The lines of klamm.toml; `jwks` is a file or an address."""
    return f"""
[issuers.{name}]
issuer = "{issuer}"
audience = "{audience}"
jwks = "{jwks}"
algorithms = ["ES256"]
"""


def _new_key(algorithm: str) -> PrivateKey:
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    curves: dict[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
    if algorithm in curves:
        return ec.generate_private_key(curves[algorithm])
    return rsa.generate_private_key(65537, 2048)
