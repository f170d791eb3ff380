"""Forms: whose pages may send them, and how they are read."""

from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import MultiDict
from starlette.types import Receive

from app.console.sessions import Seal
from app.console.visits import Visit, headers_of
from app.core.kafka.errors import ClusterAuthorizationException, InvalidRequestException, RequestTooLargeException
from app.rest.bodies.reading import BODY_TIMEOUT_S, MAX_BODY_BYTES, off_loop, read_body
from app.rest.errors import UnsupportedMediaTypeException
from app.rest.http.parameters import has_bare_percent

MAX_UNAUTHENTICATED_BYTES = 16 * 1024
"""A token has 8,192 characters at most (`signing.MAX_TOKEN`)."""
UNAUTHENTICATED_TIMEOUT_S = 2.0
"""For the form of somebody who has not signed in, which has a place in a small pool meanwhile."""
MAX_FIELDS = 5_000
_ON_LOOP_BYTES = 16 * 1024
"""They take some 2 ms at worst; a megabyte of escapes takes 0.2 s."""
_FORM = "application/x-www-form-urlencoded"

SESSION_ENDED = (
    "this form belongs to a session that has ended (sign-out, 8 hours, or a restart of the service); "
    "nothing was done. Go back, reload the page, and send the form again"
)


def max_form_bytes(visit: Visit) -> int:
    return MAX_UNAUTHENTICATED_BYTES if visit.caller is None else MAX_BODY_BYTES


def check_comes_whole(visit: Visit) -> None:
    """Raises InvalidRequestException for a form whose place would be taken before all of it is here.

    INVARIANT: slow clients who have not signed in take no place from others, as the protocol holds back short bodies.
    """
    headers = headers_of(visit.scope)
    if b"content-length" not in headers or b"expect" in headers:
        raise InvalidRequestException("send the form with its `Content-Length`, and without `Expect`, as browsers do")


async def read_form(visit: Visit, seal: Seal, receive: Receive) -> MultiDict:
    """Raises ApiException, also for a form that another site sends, or that is from another session."""
    _check_headers(visit)
    timeout_s = UNAUTHENTICATED_TIMEOUT_S if visit.caller is None else BODY_TIMEOUT_S
    body = await read_body(receive, max_form_bytes(visit), timeout_s)
    if has_bare_percent(body):
        raise InvalidRequestException("the form can't be read: it has a `%` that begins no escape")
    try:
        form = await off_loop(_parsed, body, _ON_LOOP_BYTES)
    except ValueError:
        raise InvalidRequestException(
            f"the form can't be read: it is not UTF-8, or has more than {MAX_FIELDS} fields"
        ) from None
    if not seal.is_form_token(form.get("form_token", ""), visit.session):
        raise InvalidRequestException(SESSION_ENDED)
    return form


def _check_headers(visit: Visit) -> None:
    headers = headers_of(visit.scope)
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _FORM.encode():
        raise UnsupportedMediaTypeException(f"forms must be sent as `{_FORM}`")
    origin = headers.get(b"origin")
    if headers.get(b"sec-fetch-site", b"same-origin") != b"same-origin" or (
        origin is not None and urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") != headers.get(b"host")
    ):
        raise ClusterAuthorizationException("this form was sent by another site; nothing was done")
    length, most = headers.get(b"content-length", b""), max_form_bytes(visit)
    if length.isdigit() and int(length) > most:
        sign_in = "; sign in first" if visit.caller is None else ""
        raise RequestTooLargeException(f"the form has {int(length)} bytes, and {most} are the most here{sign_in}")


def _parsed(body: bytes) -> MultiDict:
    """Raises ValueError."""
    return MultiDict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
