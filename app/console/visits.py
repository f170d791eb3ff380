"""One request of a browser: who sends it, and what that person may do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from starlette.datastructures import MultiDict, QueryParams
from starlette.types import Scope

from app.console.api import Api, ApiRefusedError
from app.console.sessions import COOKIE, SECURE_COOKIE, Seal, Session
from app.core.kafka.codes import CLUSTER_NAME, AclOperation
from app.core.kafka.configs import SUPER_USERS
from app.core.kafka.errors import ClusterAuthorizationException, InvalidRequestException, SaslAuthenticationException
from app.core.readable import backticked
from app.rest.callers.roles import NOBODY, Caller, Role
from app.rest.http.parameters import read_query
from app.rest.http.services import Services

ANONYMOUS = "User:ANONYMOUS"
"""The principal, if no callers and no super users are configured, until another one is chosen."""
MAX_QUERY_BYTES = 8 * 1024
"""Of an address; those that the pages make have 6,000 characters at most (`shown.MAX_ADDRESS`)."""
_NAMES = ("principal", "resource_name", "host", "actor")
_SCHEME = b"bearer "
_MAX_DIGITS = 19
# Not with Python's own parser of cookies, which takes seconds for some of 16 KiB.
_COOKIES = {name: re.compile(rb"(?:^|;)[ \t]*%b=([^;]*)" % name.encode()) for name in (COOKIE, SECURE_COOKIE)}

Json = dict[str, Any]


class Made(NamedTuple):
    """A change that was made. `changes` are newest first; None: what changed can't be told now."""

    changes: Sequence[Json] | None = None
    more: int = 0
    """How many are not listed."""
    undo: str | None = None
    """The plan that undoes all of them, as a form carries it."""
    transactions: str | None = None
    """All of them as `klamm undo` takes them; None if it is not known where they begin."""
    history: str = ""
    """The query of the history that lists all of them."""


@dataclass(kw_only=True)
class Visit:
    services: Services
    scope: Scope
    query: QueryParams
    is_secure: bool
    """Whether the browser has come over TLS."""
    session: Session
    is_new: bool
    """Whether the session has yet to be given to the browser."""
    caller: Caller | None
    """None: nobody has signed in."""
    is_by_header: bool
    """Whether a proxy in front has signed in, by a token in each request."""
    api: Api
    form_token: str
    form: MultiDict = field(default_factory=MultiDict)
    operations: frozenset[str] = frozenset()
    """What the principal may do on the cluster."""
    as_of: str | None = None
    """The token of the state that `operations` is from."""
    trouble: str | None = None
    """Why not even that is known."""
    has_past: bool = False
    """Whether this page can show the past."""
    made: Made | None = None
    """The change that led here."""

    @property
    def principal(self) -> str | None:
        return self.api.principal

    @property
    def is_open(self) -> bool:
        """Whether no callers are configured, so that visitors choose whom to act as."""
        return self.caller is not None and self.caller.role is Role.OPEN

    @property
    def reads(self) -> bool:
        return AclOperation.DESCRIBE.name in self.operations

    @property
    def changes(self) -> bool:
        """Whether it may change ACLs, and is not looking at the past."""
        return AclOperation.ALTER.name in self.operations and self.at is None

    @cached_property
    def at(self) -> str | None:
        """The token or the time that the page is asked for; None: now."""
        return (self.has_past and self.query.get("at", "").strip()) or None

    def then(self, body: Mapping[str, object]) -> Mapping[str, object]:
        """The body of a question about that time."""
        return body if self.at is None else {**body, "at": self.at}

    @property
    def observes(self) -> bool:
        """Whether it may see the metrics."""
        return self.reads or (self.caller is not None and self.caller.role in (Role.OPEN, Role.OBSERVE))

    @property
    def follows(self) -> bool:
        """Whether it may see the feed, by which pages follow changes."""
        return self.is_open or (self.reads and AclOperation.DESCRIBE_CONFIGS.name in self.operations)

    def given(self, *names: str) -> dict[str, str]:
        """Those of the address's fields that are not blank; blanks at the ends belong to names, and to nothing else."""
        values = ((name, self.query.get(name, "")) for name in names)
        return {name: value if name in _NAMES else value.strip() for name, value in values if value.strip()}

    @property
    def said(self) -> Mapping[str, str]:
        """The fields sent with a form, or in the address."""
        return self.form if self.scope["method"] == "POST" else self.query

    @property
    def is_fragment(self) -> bool:
        """Whether htmx asks for a part of the page."""
        return headers_of(self.scope).get(b"hx-request") == b"true"


def number_in(text: str) -> int | None:
    """None if it is not a whole number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def headers_of(scope: Scope) -> Mapping[bytes, bytes]:
    return dict(scope["headers"])


async def visit_of(services: Services, scope: Scope, seal: Seal) -> Visit:
    """Who visits, before anything else of the request is looked at. Raises ApiException."""
    if len(scope["query_string"]) > MAX_QUERY_BYTES:
        raise InvalidRequestException(
            f"the address has more than {MAX_QUERY_BYTES} bytes after its `?`; shorten it, or send the form"
        )
    query = read_query(scope["query_string"])
    is_secure = seal.is_behind_tls or scope.get("scheme") == "https"
    session = seal.opened(_cookie_in(scope, SECURE_COOKIE if is_secure else COOKIE))
    if session is not None and services.ended_sessions.has(session.id, session.began_at):
        session = None
    kept = session or Session.new()
    token, is_by_header = _token_of(scope, kept)
    return Visit(
        services=services,
        scope=scope,
        query=query,
        is_secure=is_secure,
        session=kept,
        is_new=session is None,
        caller=await _caller(services, scope, token),
        is_by_header=is_by_header,
        api=Api(services, scope, token, query.get("at_least")),
        form_token=seal.form_token(kept),
    )


def _cookie_in(scope: Scope, name: str) -> str | None:
    """The last one, if there are several."""
    lines = b"; ".join(value for header, value in scope["headers"] if header == b"cookie")
    found = _COOKIES[name].findall(lines)
    return found[-1].decode("latin-1") if found else None


def _token_of(scope: Scope, session: Session) -> tuple[str | None, bool]:
    """The token to judge the visitor by, and whether a proxy has sent it, as oauth2-proxy does; None if there is none.

    INVARIANT: a proxy's token is proved as every caller's is: no header that merely names somebody is believed, whoever
    sends it. It alone counts, whatever the cookie holds. And a sender of an `authorization` header is never taken for
    the caller of the connection's certificate, which is the proxy's own: an empty token is nobody's.
    """
    lines = [value.strip() for name, value in scope["headers"] if name == b"authorization"]
    if not lines:
        return session.token, False
    if len(lines) > 1:
        return "", True
    if lines[0][: len(_SCHEME)].lower() != _SCHEME:
        # A proxy that asks for a password may hand it on; the visitor then signs in here as well.
        return session.token or "", False
    token = lines[0][len(_SCHEME) :].strip()
    return (token.decode() if token.isascii() else ""), True


async def _caller(services: Services, scope: Scope, token: str | None) -> Caller | None:
    names: Sequence[str] = scope.get("klamm.names", ())
    if token is None:
        return services.callers.identified_without_token(scope["headers"], names)
    headers = [each for each in scope["headers"] if each[0] != b"authorization"]
    try:
        return await services.callers.identified([*headers, (b"authorization", f"Bearer {token}".encode())], names)
    except SaslAuthenticationException:
        return None


def check_may_change(visit: Visit) -> None:
    """The API refuses it too; this says so before anybody fills in a form, and before one is read."""
    if not visit.changes:
        if visit.principal is None:
            raise refusal_by_role(visit, "change ACLs")
        raise ClusterAuthorizationException(f"{backticked(visit.principal)} needs ALTER on the cluster to change ACLs")


def refusal_by_role(visit: Visit, what: str) -> ClusterAuthorizationException:
    """For a visitor that acts as no principal."""
    caller = visit.caller or NOBODY
    return ClusterAuthorizationException(
        f"the caller `{caller.name}` has the role {caller.role.value}, which may not {what}"
    )


async def find_rights(visit: Visit) -> None:
    """Finds whom the visitor acts as, and what that principal may do on the cluster."""
    caller, api = visit.caller, visit.api
    if caller is None or caller.role not in (Role.OPEN, Role.ADMIN):
        return
    try:
        api.principal = caller.principal or visit.session.acts_as or await _first_super_user(api)
        reply = await api.post(
            "/v1/authorized-operations",
            {"resources": [{"resource_type": "CLUSTER", "resource_name": CLUSTER_NAME}]},
        )
        visit.operations, visit.as_of = frozenset(reply["results"][0]["operations"]), reply["token"]
    except ApiRefusedError as refusal:
        visit.trouble = refusal.detail


async def _first_super_user(api: Api) -> str:
    api.principal = ANONYMOUS
    configs = (await api.get("/v1/configs"))["configs"]
    value = next((each["value"] for each in configs if each["name"] == SUPER_USERS), None)
    return str(value).split(";")[0] if value else ANONYMOUS
