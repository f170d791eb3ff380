"""Callers that a service may know, one for each kind of rights, and their tokens."""

from collections.abc import Mapping
from pathlib import Path

from app.metrics.declared import Metrics
from app.rest.callers.authentication import Callers, Credentials
from app.rest.callers.roles import Caller, Role
from app.rest.callers.static_tokens import StaticTokens
from app.rest.callers.token_file import add_token

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


def callers_of(tokens_file: Path | None, metrics: Metrics) -> tuple[Callers, Mapping[str, str]]:
    """Who tells these callers by the file's tokens, which are made here, and the tokens by name; None: knows nobody."""
    if tokens_file is None:
        return Callers(None, metrics), {}
    tokens = {name: add_token(tokens_file, name, CALLERS) for name in CALLERS}
    return Callers(Credentials(callers=CALLERS, tokens=StaticTokens(tokens_file, CALLERS, metrics)), metrics), tokens
