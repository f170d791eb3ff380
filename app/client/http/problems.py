"""What a failed call means, in one line: problem+json (RFC 9457), other answers, and none at all."""

import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from app.client.faults import ServiceError
from app.client.http.access import Access
from app.client.http.address import UNIX

_MAX_FIELDS = 20
_LOOK_FIRST = "nobody knows whether the change was made; look at the ACLs before you repeat it"
_PROVE_IT = "show a token with --token-file or --command-config"
_OTHER_PRINCIPAL = (
    "the principal that asks (--as) needs Describe on the cluster to read ACLs, Alter to change them, and must be one "
    "that this caller may speak for"
)
_NO_PATH = "leave its path out (--klamm http://host:port), unless a proxy wants one"
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a connection did not come about. `passing`: it may in a moment, as when a service is started again."""

    text: str
    passing: bool


def error_of_reply(url: str, response: httpx.Response, body: bytes, *, update: bool) -> ServiceError:
    """The refusal that an answer other than 2xx means; what became of an update is unknown with 5xx, except 503."""
    status = response.status_code
    unknown = update and status >= httpx.codes.INTERNAL_SERVER_ERROR
    problem = _problem(body)
    if response.is_redirect:
        target = response.headers.get("location", "")[:_SHOWN_CHARACTERS]
        text = f"`{url}` sends callers on to `{target}`, which is not followed; name the service itself with --klamm"
        return ServiceError(text, status=status)
    if problem is None:
        text = f"`{url}` answered {status} {response.reason_phrase}, and not as Klamm does; is it the right address?"
        if _has_path(url):
            text = f"{text} {_NO_PATH}"
        return ServiceError(f"{text} {_LOOK_FIRST}" if unknown else text, status=status, outcome_unknown=unknown)
    code = str(problem["code"])
    # Klamm's own 503 says that nothing was done.
    unknown = unknown and status != httpx.codes.SERVICE_UNAVAILABLE
    words = [f"{code}: {_details(problem)}"]
    if status == httpx.codes.UNAUTHORIZED:
        words.append(_PROVE_IT)
    if status == httpx.codes.FORBIDDEN:
        words.append(_OTHER_PRINCIPAL)
    if status == httpx.codes.NOT_FOUND and _has_path(url):
        words.append(_NO_PATH)
    if unknown:
        words.append(_LOOK_FIRST)
    return ServiceError("; ".join(words), code=code, status=status, outcome_unknown=unknown)


def is_retriable(body: bytes) -> bool:
    """Whether the service itself says that the same call may succeed later."""
    problem = _problem(body)
    return problem is not None and problem.get("retriable") is True


def unreachable_text(access: Access, reason: Reason) -> str:
    """What to say if no connection came about."""
    if isinstance(access.socket_path, str):
        return f"can't reach Klamm at `{access.url}` ({reason.text}); is it running there (klamm serve --uds)?"
    way_out = "name its address with --klamm" if reason.passing else "see --klamm and --ca"
    return f"can't reach Klamm at `{access.url}` ({reason.text}); is it running there? {way_out}"


def broken_off_text(access: Access) -> str:
    """What to say of a service that has taken a connection and closed it without an answer."""
    way_out = "if it has TLS, write https:// (--klamm)" if access.url.startswith("http://") else "see the service's log"
    return f"broke the connection off; {way_out}"


def reason_of(fault: httpx.HTTPError) -> Reason:
    """What lies at the bottom of it, in the words of OpenSSL or of the operating system."""
    if isinstance(fault, httpx.TimeoutException):
        return Reason("no answer", passing=False)
    reasons = filter(None, map(_reason_of_cause, _causes(fault)))
    return next(reasons, Reason(str(fault) or "no connection", passing=True))


def _reason_of_cause(cause: BaseException) -> Reason | None:
    reason = None
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = Reason(f"its certificate is not believed: {cause.verify_message}", passing=False)
    elif isinstance(cause, ssl.SSLError):
        reason = Reason(f"no TLS: {cause.reason or cause.strerror}", passing=False)
    elif isinstance(cause, socket.gaierror):
        reason = Reason("there is no such host", passing=cause.errno == socket.EAI_AGAIN)
    elif isinstance(cause, OSError) and cause.strerror:
        reason = Reason(cause.strerror.lower(), passing=not isinstance(cause, PermissionError))
    return reason


def _causes(fault: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = fault
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


def _problem(body: bytes) -> dict[str, object] | None:
    """The body of a refusal by Klamm; None if it is something else, such as a proxy's page."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("code"), str) else None


def _has_path(url: str) -> bool:
    return not url.startswith(UNIX) and httpx.URL(url).path != "/"


def _details(problem: dict[str, object]) -> str:
    """The detail; if fields are at fault, each of them with what is wrong with it."""
    errors = problem.get("errors")
    fields = [
        f"`{each.get('pointer')}`: {each.get('detail')}" if each.get("pointer") else str(each.get("detail"))
        for each in (errors if isinstance(errors, list) else [])
        if isinstance(each, dict)
    ]
    return "; ".join(fields[:_MAX_FIELDS]) or str(problem.get("detail") or problem.get("title") or "no reason given")
