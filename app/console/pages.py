"""The console's routes, of the same class as all other routes, which answer with pages."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TypeVar
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import MultiDict
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope

from app import __version__
from app.console.api import ApiRefusedError
from app.console.forms import SESSION_ENDED, check_comes_whole, max_form_bytes, read_form
from app.console.made import made_by
from app.console.sessions import COOKIE, LIFETIME_S, MAX_COOKIE_BYTES, SECURE_COOKIE, Seal, Session
from app.console.shown import FILTERS, MAX_ADDRESS, query
from app.console.visits import Visit, check_may_change, find_rights, visit_of
from app.core.kafka.bindings import KEEP
from app.core.kafka.errors import ApiException, InvalidRequestException
from app.rest.callers.roles import NOBODY
from app.rest.errors import MethodNotAllowedException, status_of, unexpected
from app.rest.http.arguments import Call
from app.rest.http.edge import Reply, Route
from app.rest.http.services import Services

HOME = "/console"
NAME = "console"
"""The name of all its routes in metrics."""

_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
GUARDS = {
    "content-security-policy": _POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # `no-referrer` would make browsers send forms without an origin.
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
NOT_KEPT = {**GUARDS, "cache-control": "no-store"}
"""The headers of all that no browser may keep."""


async def _answered_by_the_route() -> None:
    """The endpoint that FastAPI sees; its router never calls it."""


T = TypeVar("T", bound=Reply)
Endpoint = Callable[[Visit], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Declared:
    method: str
    path: str
    endpoint: Endpoint
    is_public: bool = False
    """Whether it needs no sign-in."""
    has_past: bool = False
    """Whether it can be shown as of a token or a time (`at`)."""
    for_changes: bool = False
    """Whether it is only for who may change ACLs."""


@dataclass(frozen=True, slots=True)
class Pages:
    """What one module of pages declares, with the fields of `Declared`."""

    declared: list[Declared] = field(default_factory=list)

    def get(self, path: str = "", **more: bool) -> Callable[[Endpoint], Endpoint]:
        return self._declare("GET", path, **more)

    def post(self, path: str, **more: bool) -> Callable[[Endpoint], Endpoint]:
        return self._declare("POST", path, **more)

    def _declare(self, method: str, path: str, **more: bool) -> Callable[[Endpoint], Endpoint]:
        def declare(endpoint: Endpoint) -> Endpoint:
            self.declared.append(Declared(method, f"{HOME}{path}", endpoint, **more))
            return endpoint

        return declare


class _SignInNeededError(Exception):
    """The visitor has to sign in first."""


class PageRoute(Route):
    """A page: the edge's steps for a visitor with a cookie and forms.

    INVARIANT: the routes that the page calls in turn check who calls, and what that caller may do.
    """

    def __init__(self, declared: Declared, seal: Seal) -> None:
        super().__init__(
            declared.path,
            _answered_by_the_route,
            name=NAME,
            needs_caller=False,
            pool="pages",
            methods=[declared.method],
            include_in_schema=False,
        )
        self.takes_body = declared.method == "POST"
        self._declared = declared
        self._seal = seal

    async def identify(self, services: Services, scope: Scope) -> Call:
        # A browser reuses its connection, which counts as known only while its visitor is signed in.
        scope["klamm.known"] = False
        visit = scope[_VISIT] = await visit_of(services, scope, self._seal)
        scope["klamm.known"] = visit.caller is not None
        if visit.caller is None and not self._declared.is_public:
            raise InvalidRequestException(SESSION_ENDED) if self.takes_body else _SignInNeededError
        if visit.caller is None and self.takes_body:
            check_comes_whole(visit)
        visit.has_past = self._declared.has_past
        await find_rights(visit)
        if self._declared.for_changes:
            check_may_change(visit)
        return Call(services, visit.caller or NOBODY, scope)

    def pool_of(self, call: Call) -> str:
        return "unauthenticated" if _visit_in(call).caller is None else self.pool

    def max_body_of(self, call: Call) -> int:
        return max_form_bytes(_visit_in(call))

    async def read(self, call: Call, receive: Receive) -> MultiDict:
        return await read_form(_visit_in(call), self._seal, receive)

    def pool_of_reply(self, call: Call) -> str | None:
        # The page of somebody who has signed in calls the API, which takes places for what it does.
        return "unauthenticated" if _visit_in(call).caller is None else None

    async def reply_to(self, call: Call) -> Reply:
        visit = _visit_in(call)
        if self.takes_body:
            visit.form = call.body
        visit.made = await made_by(visit)
        return self._with_session(visit, await self._declared.endpoint(visit))

    def refusal(self, fault: Exception, scope: Scope) -> Response:
        visit: Visit | None = scope.get(_VISIT)
        if visit is not None and isinstance(fault, _SignInNeededError):
            return self._with_session(visit, to_sign_in(visit))
        headers = {"allow": fault.allow} if isinstance(fault, MethodNotAllowedException) else {}
        if isinstance(fault, ApiRefusedError):
            status, why = fault.status, fault.detail
        else:
            refused = fault if isinstance(fault, ApiException) else unexpected(fault)
            status, why = status_of(refused), refused.message
        return self._with_session(visit, refused_page(visit, status, why, **headers))

    def _with_session(self, visit: Visit | None, reply: T) -> T:
        if visit is not None and visit.is_new and isinstance(reply, Response) and _wants_session(reply):
            give_session(visit, reply, visit.session, self._seal)
        return reply


_VISIT = "klamm.visit"


def _visit_in(call: Call) -> Visit:
    visit: Visit = call.scope[_VISIT]
    return visit


def _wants_session(reply: Response) -> bool:
    """Whether it is a page that does not itself begin or end a session."""
    return reply.headers.get("content-type", "").startswith("text/html") and "set-cookie" not in reply.headers


def give_session(visit: Visit, reply: Response, session: Session, seal: Seal) -> None:
    """Raises InvalidRequestException for a token that no cookie can hold."""
    sealed = seal.sealed(session)
    if len(sealed) > MAX_COOKIE_BYTES:
        raise InvalidRequestException("this token is too long for a browser's cookie; sign in with a shorter one")
    _set_cookie(visit, reply, sealed, LIFETIME_S)


def take_session(visit: Visit, reply: Response) -> None:
    """The browser forgets its session."""
    _set_cookie(visit, reply, "", 0)


def _set_cookie(visit: Visit, reply: Response, value: str, seconds: int) -> None:
    # `__Host-` asks for that path; nothing but the console reads cookies.
    name, path = (SECURE_COOKIE, "/") if visit.is_secure else (COOKIE, HOME)
    reply.set_cookie(name, value, seconds, path=path, secure=visit.is_secure, httponly=True, samesite="strict")


def to_sign_in(visit: Visit) -> Response:
    if visit.is_fragment:
        # htmx would put the sign-in page into the table.
        return Response(status_code=200, headers={**NOT_KEPT, "hx-redirect": f"{HOME}/sign-in?next={quote(HOME)}"})
    return RedirectResponse(f"{HOME}/sign-in?next={quote(here(visit))}", 303, NOT_KEPT)


def to(target: str, token: str | None = None, planned_on: str | None = None) -> Response:
    """A redirect to another page of the console, which shows the state of the token or a later one.

    If a change led to that state, `planned_on` is the state before it, and the page says what was made.
    """
    if token is not None:
        target = _without(target, "made", "at_least")
        target += f"{'&' if '?' in target else '?'}{query({'made': planned_on, 'at_least': token})}"
    return RedirectResponse(target, 303, NOT_KEPT)


def _without(address: str, *names: str) -> str:
    path, _, asked = address.partition("?")
    kept = query({name: value for name, value in parse_qsl(asked) if name not in names})
    return f"{path}?{kept}" if kept else path


def safe_target(text: str | None) -> str:
    """A path of the console; the first page in place of another site's address, or of none."""
    is_ours = (
        text is not None and len(text) <= MAX_ADDRESS and (text == HOME or text.startswith((f"{HOME}/", f"{HOME}?")))
    )
    return text if text is not None and is_ours and text.isprintable() and "\\" not in text else HOME


async def page(visit: Visit, template: str, status: int = 200, **shown: object) -> Response:
    # In a thread, as a page with a thousand ACLs takes a tenth of a second.
    return _html(await asyncio.to_thread(_rendered, template, visit=visit, **shown), status)


def _rendered(template: str, **shown: object) -> bytes:
    text = _environment().get_template(f"{template}.html.j2").render(**shown)
    # A surrogate can't come from UTF-8; one that gets here is shown, and is no error.
    return text.encode(errors="replace")


def refused_page(visit: Visit | None, status: int, why: str, **headers: str) -> Response:
    """It is short, so it needs no thread."""
    return _html(_rendered("refused", visit=visit, title="Refused", why=why), status, **headers)


def _html(content: bytes, status: int = 200, **headers: str) -> Response:
    return Response(content, status, {**NOT_KEPT, **headers}, "text/html; charset=utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    environment.globals |= {
        "version": __version__,
        "asset": _asset,
        "keep": KEEP,
        "pages_of": _pages_of,
        "here": here,
        "frozen": frozen,
    }
    return environment


_FOR_READERS = (
    ("acls", "ACLs"),
    ("resource", "Resources"),
    ("principal", "Principals"),
    ("history", "History"),
    ("hygiene", "Hygiene"),
)


def _pages_of(visit: Visit) -> list[tuple[str, str]]:
    """What the visitor may look at, by address."""
    pages = [(HOME, "Ask")] if visit.principal is not None else []
    if visit.reads:
        pages += [(f"{HOME}/{path}", word) for path, word in _FOR_READERS]
    return [*pages, *([(f"{HOME}/state", "State")] if visit.observes else [])]


def here(visit: Visit) -> str:
    """The address of this page, for forms that come back to it."""
    if visit.scope["method"] != "GET":
        return HOME
    asked = visit.scope["query_string"].decode("latin-1")
    return f"{visit.scope['path']}?{asked}" if asked else str(visit.scope["path"])


def frozen(visit: Visit, token: str | None) -> str:
    """The address of this page at a state; None: the present one."""
    kept = {name: value for name, value in visit.query.items() if name not in ("at", "at_least", "made", "cursor")}
    address = query({**kept, "at": token})
    return f"{visit.scope['path']}?{address}" if address else str(visit.scope["path"])


def _asset(name: str) -> str:
    return f"{HOME}/static/{assets()[name].digest}/{name}"


@dataclass(frozen=True, slots=True)
class Asset:
    content: bytes
    media_type: str
    digest: str
    """In its address, so that browsers keep it for good."""


_MEDIA_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


@cache
def assets() -> dict[str, Asset]:
    found = {}
    # The pipeline's report looks the same, so that sheet belongs to neither room.
    for file in (files("app") / "look.css", *(files(__package__) / "static").iterdir()):
        media_type = _MEDIA_TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None:
            content = file.read_bytes()
            found[file.name] = Asset(content, media_type, sha256(content).hexdigest()[:12])
    return found
