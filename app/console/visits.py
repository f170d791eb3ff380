"""One request of a browser: who sends it, what that person may do, and the guards of every page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import MultiDict, QueryParams
from starlette.requests import cookie_parser
from starlette.types import Receive, Scope

from app.console.api import Api, ApiRefusedError
from app.console.sessions import COOKIE, Seal, Session
from app.core.kafka.codes import CLUSTER_NAME, AclOperation
from app.core.kafka.configs import SUPER_USERS
from app.core.kafka.errors import ClusterAuthorizationException, InvalidRequestException, SaslAuthenticationException
from app.rest.callers.roles import Caller, Role
from app.rest.errors import UnsupportedMediaTypeException
from app.rest.http.services import Services

NOBODY = "User:ANONYMOUS"
"""The principal, if no callers and no super users are configured, until another one is chosen."""
MAX_FIELDS = 5_000
_FORM = "application/x-www-form-urlencoded"
_SCHEME = b"bearer "
_MAX_DIGITS = 19

Json = dict[str, Any]


class Made(NamedTuple):
    """A change that was made. `changes` are newest first; None: what changed can't be told now."""

    token: str
    changes: Sequence[Json] | None = None
    more: int = 0
    """How many are not listed."""
    undo: str | None = None
    """The plan that undoes all of them, as a form carries it."""
    history: str = ""
    """The query of the history that lists all of them."""


@dataclass(kw_only=True)
class Visit:
    services: Services
    scope: Scope
    session: Session
    is_new: bool
    """Whether the session has yet to be given to the browser."""
    caller: Caller | None
    """None: nobody has signed in."""
    is_by_header: bool
    """Whether a proxy in front has signed in, by a token in each request."""
    api: Api
    form_token: str
    receive: Receive
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
        return self.caller is not None and self.caller.role in (Role.OPEN, Role.ADMIN, Role.OBSERVE)

    @cached_property
    def query(self) -> QueryParams:
        return QueryParams(self.scope["query_string"])

    def given(self, *names: str) -> dict[str, str]:
        """Those of the address's fields that are not blank."""
        return {name: value for name in names if (value := self.query.get(name, "").strip())}

    @property
    def said(self) -> Mapping[str, str]:
        """The fields sent with a form, or in the address."""
        return self.form if self.scope["method"] == "POST" else self.query

    @property
    def is_secure(self) -> bool:
        return self.scope.get("scheme") == "https"

    @property
    def is_fragment(self) -> bool:
        """Whether htmx asks for a part of the page."""
        return headers_of(self.scope).get(b"hx-request") == b"true"


def number_in(text: str) -> int | None:
    """None if it is not a whole number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def headers_of(scope: Scope) -> Mapping[bytes, bytes]:
    return dict(scope["headers"])


async def visit_of(services: Services, scope: Scope, receive: Receive, seal: Seal) -> Visit:
    headers = headers_of(scope)
    session = seal.opened(cookie_parser(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE))
    kept = session or Session.new()
    at_least = QueryParams(scope["query_string"]).get("at_least")
    token, is_by_header = _token_of(scope, kept)
    api = Api(services, scope, token, at_least)
    return Visit(
        services=services,
        scope=scope,
        session=kept,
        is_new=session is None,
        caller=await _caller(services, scope, token),
        is_by_header=is_by_header,
        api=api,
        form_token=seal.form_token(kept),
        receive=receive,
    )


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
    api.principal = NOBODY
    configs = (await api.get("/v1/configs"))["configs"]
    value = next((each["value"] for each in configs if each["name"] == SUPER_USERS), None)
    return str(value).split(";")[0] if value else NOBODY


def check_form(visit: Visit, seal: Seal, body: bytes) -> None:
    """Reads the form into the visit. Raises for a form that another site sends, or that is from another session."""
    headers = headers_of(visit.scope)
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _FORM.encode():
        raise UnsupportedMediaTypeException(f"forms must be sent as `{_FORM}`")
    origin = headers.get(b"origin")
    if headers.get(b"sec-fetch-site", b"same-origin") != b"same-origin" or (
        origin is not None and urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") != headers.get(b"host")
    ):
        raise ClusterAuthorizationException("this form was sent by another site; nothing was done")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise InvalidRequestException("the form can't be read: it is not UTF-8, or has too many fields") from None
    visit.form = MultiDict(fields)
    if not seal.is_form_token(visit.form.get("form_token", ""), visit.session):
        raise InvalidRequestException(
            "this form belongs to a session that has ended (sign-out, 8 hours, or a restart of the service); "
            "nothing was done. Go back, reload the page, and send the form again"
        )
