"""Callers that a service may know, one for each kind of rights, and how they show who they are.

In process they are `CALLERS` with `callers_of`; a service of its own reads what `write_configuration` writes.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from app.metrics.declared import Metrics
from app.rest.callers.authentication import Callers, Credentials
from app.rest.callers.roles import Caller, Role
from app.rest.callers.static_tokens import StaticTokens
from app.rest.callers.token_file import add_token
from tests.issuers import AUDIENCE, Key, issuer_table, key_set
from tests.planted import plant

CALLERS: Mapping[str, Caller] = {
    "sidecar": Caller("sidecar", Role.DECIDE, patterns=("User:orders-*",)),
    "anyone": Caller("anyone", Role.DECIDE, patterns=("User:*",)),
    "platform": Caller("platform", Role.ADMIN, "User:platform"),
    "broker": Caller("broker", Role.DECIDE, patterns=("User:*",), groups=("eng-*", "pii")),
    "lead": Caller("lead", Role.ADMIN, "User:platform", groups=("platform-*",)),
    "root": Caller("root", Role.ADMIN, "User:admin"),
    "prometheus": Caller("prometheus", Role.OBSERVE),
}
"""User:admin is a super user."""

ISSUER = "https://login.example.com/"

_CONFIGURATION = """\
tokens.file = "klamm.tokens"

[callers.anyone]
role = "decide"
principals = ["User:*"]

[callers.orders]
role = "decide"
principals = ["User:orders-*"]

[callers.broker]
role = "decide"
principals = ["User:*"]
may_assert_super = true

[callers.platform]
role = "admin"
principal = "User:platform"

[callers.root]
role = "admin"
principal = "User:admin"

[callers.prometheus]
role = "observe"

[callers.gateway]
role = "decide"
principals = ["User:*"]
issuer = "corp"
subject = "gateway"

"""
STATIC = ("anyone", "orders", "broker", "platform", "root", "prometheus")


def callers_of(tokens_file: Path | None, metrics: Metrics) -> tuple[Callers, Mapping[str, str]]:
    """Who tells these callers by the file's tokens, which are made here, and the tokens by name; None: knows nobody."""
    if tokens_file is None:
        return Callers(None, metrics), {}
    tokens = {name: add_token(tokens_file, name, CALLERS) for name in CALLERS}
    return Callers(Credentials(callers=CALLERS, tokens=StaticTokens(tokens_file, CALLERS, metrics)), metrics), tokens


class Corp:
    """An issuer with one key."""

    def __init__(self) -> None:
        self._key = Key("one")

    @property
    def jwks(self) -> bytes:
        """Its public key, as a key set."""
        return key_set(self._key)

    def token(self, ends_in_s: float = 3_600, **more: object) -> str:
        """A token of the caller `gateway`."""
        now = time.time()
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "gateway", "iat": now - 7_200, "exp": now + ends_in_s, **more}
        return plant(self._key.sign(claims))


def write_configuration(folder: Path, corp: Corp) -> Mapping[str, str]:
    """Put klamm.toml and what it names into a folder; returns each static caller's token."""
    (folder / "klamm.toml").write_text(_CONFIGURATION + issuer_table("corp", "jwks.json", issuer=ISSUER))
    (folder / "jwks.json").write_bytes(corp.jwks)
    tokens = {name: plant(add_token(folder / "klamm.tokens", name, STATIC)) for name in STATIC}
    # A second live token changes nothing.
    plant(add_token(folder / "klamm.tokens", "anyone", STATIC))
    for line in (folder / "klamm.tokens").read_text().splitlines():
        plant(line.rpartition("sha256:")[2])
    return tokens
