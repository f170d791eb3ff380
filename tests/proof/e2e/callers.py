"""A klamm.toml with a caller of every kind, and what each of them shows."""

import time
from collections.abc import Mapping
from pathlib import Path

from app.rest.callers.token_file import add_token
from tests.issuers import AUDIENCE, Key, issuer_table, key_set
from tests.planted import plant

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
