"""Who asks, where the server's protocol answers at once: what its headers alone tell, without a wait."""

from collections.abc import Mapping, Sequence

from app.ops.logs import RequestMark
from app.rest.callers.authentication import Callers, shows_one_at_most
from app.rest.callers.roles import ANYBODY, Caller
from app.rest.correlation import mark_of, mark_of_headers
from app.rest.strict_json import MAX_BODY_BYTES, check_headers

Headers = Sequence[tuple[bytes, bytes]]
Fields = Mapping[bytes, bytes]
"""The same by name; of those that came more than once, the last."""


def caller_at_once(
    callers: Callers, operation: str, headers: Headers, fields: Fields, names: Sequence[str]
) -> Caller | None:
    """Who asks for this operation, and may, as far as a look tells; its quota is not touched.

    Raises InvalidRequestException for what the headers say of the body.
    """
    if len(fields) != len(headers) and not shows_one_at_most(headers):
        return None
    caller = callers.known(fields, names)
    if caller is None or operation not in caller.operations:
        return None
    check_headers(headers, MAX_BODY_BYTES)
    return caller


def mark_at_once(headers: Headers, fields: Fields, caller: Caller) -> RequestMark:
    """The mark of a request of this caller."""
    mark = mark_of(fields) if len(fields) == len(headers) else mark_of_headers(headers)
    if caller is not ANYBODY:
        mark.caller = caller.name
    return mark
