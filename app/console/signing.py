"""Signing in with a caller's token, and out; if no callers are configured, choosing whom to act as."""

from functools import partial

from app.client.words import principal_named
from app.console.pages import HOME, Pages, give_session, page, safe_target, take_session, to
from app.console.sessions import Seal, Session
from app.console.visits import Visit
from app.core.kafka.errors import ClusterAuthorizationException, SaslAuthenticationException
from app.formats.command_errors import UsageError
from app.rest.callers.roles import Caller
from app.rest.http.edge import Reply

MAX_TOKEN = 8_192
_MAX_PRINCIPAL = 2_000


def signing_pages(seal: Seal) -> Pages:
    """Only these pages give a browser another session."""
    pages = Pages()
    pages.get("/sign-in", is_public=True)(_form)
    pages.post("/sign-in", is_public=True)(partial(_sign_in, seal))
    pages.post("/sign-out", is_public=True)(_sign_out)
    pages.post("/act-as")(partial(_act_as, seal))
    return pages


async def _form(visit: Visit) -> Reply:
    if visit.caller is not None:
        return to(safe_target(visit.query.get("next")))
    return await page(visit, "sign_in", next=safe_target(visit.query.get("next")), fault=None)


async def _sign_in(seal: Seal, visit: Visit) -> Reply:
    target = safe_target(visit.form.get("next"))
    token = visit.form.get("token", "").strip()
    try:
        visit.caller = await _caller(visit, token)
    except SaslAuthenticationException:
        fault = "the service does not know this token. Paste all of it, exactly as `klamm token` printed it"
        return await page(visit, "sign_in", 401, next=target, fault=fault)
    reply = to(target)
    # INVARIANT: signing in makes a new session, so one that was known before is never that of a later user.
    give_session(visit, reply, Session.new(token), seal)
    return reply


async def _caller(visit: Visit, token: str) -> Caller:
    if not token.isascii() or not token.isprintable() or not 0 < len(token) <= MAX_TOKEN:
        raise SaslAuthenticationException("a token is printable ASCII of limited length")
    return await visit.services.callers.identified([(b"authorization", f"Bearer {token}".encode())], ())


async def _sign_out(visit: Visit) -> Reply:
    reply = to(f"{HOME}/sign-in")
    take_session(visit, reply)
    # Nobody who has not signed in can have anything remembered.
    if visit.session.is_somebodys:
        await visit.services.ended_sessions.end(visit.session.id)
    return reply


def _principal_of(text: str) -> str:
    """Raises UsageError."""
    if len(text) > _MAX_PRINCIPAL:
        raise UsageError(f"it has {len(text):,} characters, and {_MAX_PRINCIPAL:,} are the most that a cookie can hold")
    return principal_named(text)


async def _act_as(seal: Seal, visit: Visit) -> Reply:
    if not visit.is_open:
        raise ClusterAuthorizationException(
            "the principal of a caller is set in the configuration; sign in as another caller"
        )
    try:
        principal = _principal_of(visit.form.get("principal", ""))
    except UsageError as fault:
        return await page(visit, "refused", 400, title="No such principal", why=str(fault))
    reply = to(safe_target(visit.form.get("back")))
    give_session(visit, reply, Session.new(acts_as=principal), seal)
    return reply
