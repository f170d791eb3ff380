"""The console's routes, of the same class as all other routes, which answer with pages."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope

from app import __version__
from app.console.api import ApiRefusedError
from app.console.made import made_by
from app.console.sessions import COOKIE, LIFETIME_S, MAX_COOKIE_BYTES, Seal, Session
from app.console.shown import FILTERS, query
from app.console.visits import Visit, check_form, find_rights, visit_of
from app.core.kafka.bindings import KEEP
from app.core.kafka.errors import ApiException, InvalidRequestException
from app.rest.bodies.reading import MAX_BODY_BYTES, read_body
from app.rest.errors import MethodNotAllowedException, status_of, unexpected
from app.rest.http.admission import body_bytes_of
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


Endpoint = Callable[[Visit], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Declared:
    method: str
    path: str
    endpoint: Endpoint
    is_public: bool
    """Whether it needs no sign-in."""
    has_past: bool
    """Whether it can be shown as of a token or a time (`at`)."""


@dataclass(frozen=True, slots=True)
class Pages:
    """What one module of pages declares."""

    declared: list[Declared] = field(default_factory=list)

    def get(self, path: str = "", *, is_public: bool = False, has_past: bool = False) -> Callable[[Endpoint], Endpoint]:
        return self._declare("GET", path, is_public=is_public, has_past=has_past)

    def post(self, path: str, *, is_public: bool = False) -> Callable[[Endpoint], Endpoint]:
        return self._declare("POST", path, is_public=is_public, has_past=False)

    def _declare(self, method: str, path: str, *, is_public: bool, has_past: bool) -> Callable[[Endpoint], Endpoint]:
        def declare(endpoint: Endpoint) -> Endpoint:
            self.declared.append(Declared(method, f"{HOME}{path}", endpoint, is_public, has_past))
            return endpoint

        return declare


class PageRoute(Route):
    """INVARIANT: the routes that the page calls in turn check who calls, and what that caller may do."""

    def __init__(self, declared: Declared, seal: Seal) -> None:
        super().__init__(
            declared.path,
            _answered_by_the_route,
            name=NAME,
            needs_caller=False,
            pool="waiting",
            methods=[declared.method],
            include_in_schema=False,
        )
        self._declared = declared
        self._seal = seal

    async def answer(self, services: Services, scope: Scope, receive: Receive) -> Reply:
        if scope["method"] not in self.methods:
            raise MethodNotAllowedException(self._declared.method)
        # A browser reuses its connection, which counts as known only while its visitor is signed in.
        scope["klamm.known"] = False
        async with services.admission.waiting.admitted(body_bytes_of(scope["headers"], MAX_BODY_BYTES), None, None):
            visit = await visit_of(services, scope, receive, self._seal)
            if self._declared.method == "POST":
                check_form(visit, self._seal, await read_body(receive, MAX_BODY_BYTES))
            if visit.caller is None and not self._declared.is_public:
                return to_sign_in(visit)
            scope["klamm.known"] = visit.caller is not None
            visit.has_past = self._declared.has_past
            await find_rights(visit)
            try:
                visit.made = await made_by(visit)
                reply = await self._declared.endpoint(visit)
            except ApiRefusedError as refusal:
                reply = await page(visit, "refused", refusal.status, title="Refused", why=refusal.detail)
            except ApiException as refusal:
                reply = await page(visit, "refused", status_of(refusal), title="Refused", why=refusal.message)
        if visit.is_new and isinstance(reply, Response) and _wants_session(reply):
            give_session(visit, reply, visit.session, self._seal)
        return reply

    def refusal(self, fault: Exception) -> Response:
        refused = fault if isinstance(fault, ApiException) else unexpected(fault)
        text = _environment().get_template("refused.html.j2").render(visit=None, title="Refused", why=refused.message)
        headers = {"allow": refused.allow} if isinstance(refused, MethodNotAllowedException) else {}
        return _html(text, status_of(refused), **headers)


def _wants_session(reply: Response) -> bool:
    """Whether it is a page that does not itself begin or end a session."""
    return reply.headers.get("content-type", "").startswith("text/html") and "set-cookie" not in reply.headers


def give_session(visit: Visit, reply: Response, session: Session, seal: Seal) -> None:
    """Raises InvalidRequestException for a token that no cookie can hold."""
    sealed = seal.sealed(session)
    if len(sealed) > MAX_COOKIE_BYTES:
        raise InvalidRequestException("this token is too long for a browser's cookie; sign in with a shorter one")
    reply.set_cookie(COOKIE, sealed, LIFETIME_S, path=HOME, secure=visit.is_secure, httponly=True, samesite="strict")


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
    is_ours = text is not None and (text == HOME or text.startswith((f"{HOME}/", f"{HOME}?")))
    return text if text is not None and is_ours and text.isprintable() and "\\" not in text else HOME


async def page(visit: Visit, template: str, status: int = 200, **shown: object) -> Response:
    found = _environment().get_template(f"{template}.html.j2")
    # In a thread, as a page with a thousand ACLs takes a tenth of a second.
    return _html(await asyncio.to_thread(found.render, visit=visit, **shown), status)


def _html(text: str, status: int = 200, **headers: str) -> Response:
    # A surrogate can't come from UTF-8; one that gets here is shown, and is no error.
    return Response(text.encode(errors="replace"), status, {**NOT_KEPT, **headers}, "text/html; charset=utf-8")


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
