"""The single table from Kafka's errors to HTTP, and the body that every refusal has (RFC 9457).

ApiException                        core
|- InvalidRequestException          core
|  |- InvalidFieldsException        400, names the fields
|  |- UnsupportedMediaTypeException 415
|  |- MethodNotAllowedException     405, with Allow
|  `- BodyTimedOutException         408
`- ResourceNotFoundException        core
   `- RemovedPathException          410
"""

import logging
from collections.abc import Sequence
from typing import Annotated, TypedDict

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from app.core.kafka.errors import (
    ApiException,
    Errors,
    InvalidRequestException,
    RequestTooLargeException,
    ResourceNotFoundException,
)
from app.logs.service import REQUEST_MARK

PROBLEM_MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
MAX_FIELD_ERRORS = 20
_UNAUTHORIZED = 401
_OPA_PATH = "/v1/data/kafka/authz/allow"
"""The path that OPA's Kafka plugin asks, with or without a cluster behind it. The 410 goes in version 0.2."""

_LOG = logging.getLogger(__name__)

STATUS_OF_ERROR = {
    Errors.UNKNOWN_SERVER_ERROR: 500,
    Errors.AUTHORIZER_NOT_READY: 503,
    Errors.STORE_UNAVAILABLE: 503,
    Errors.OVERLOADED: 429,
    Errors.TOKEN_EPOCH_MISMATCH: 409,
    Errors.TOKEN_EPOCH_INVALID: 409,
    Errors.OFFSET_OUT_OF_RANGE: 410,
    Errors.REQUEST_TIMED_OUT: 504,
    Errors.TOPIC_AUTHORIZATION_FAILED: 403,
    Errors.GROUP_AUTHORIZATION_FAILED: 403,
    Errors.CLUSTER_AUTHORIZATION_FAILED: 403,
    Errors.INVALID_REQUEST: 400,
    Errors.POLICY_VIOLATION: 400,
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
    Errors.SECURITY_DISABLED: 400,
    Errors.SASL_AUTHENTICATION_FAILED: 401,
    Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED: 403,
    Errors.OFFSET_NOT_AVAILABLE: 503,
    Errors.THROTTLING_QUOTA_EXCEEDED: 429,
    Errors.RESOURCE_NOT_FOUND: 404,
    Errors.INVALID_UPDATE_VERSION: 412,
    Errors.INCONSISTENT_CLUSTER_ID: 409,
}
"""The HTTP status of a refusal of the whole request. Per-item refusals carry the code alone, in a 200."""


class ProblemField(msgspec.Struct, frozen=True):
    """What is wrong with one field."""

    pointer: Annotated[str, Meta(description="JSON pointer into the body.")]
    detail: Annotated[str, Meta(description="What is wrong with it, and the way out.")]


class Problem(msgspec.Struct):
    """Why the whole request was refused (RFC 9457)."""

    type: Annotated[str, Meta(description="A URN with the code in it.")]
    title: Annotated[str, Meta(description="The code, in words.")]
    status: Annotated[int, Meta(description="The HTTP status.")]
    detail: Annotated[str, Meta(description="What is wrong, and what to do about it, for people to read.")]
    code: Annotated[str, Meta(description="Kafka's error name, or Klamm's where Kafka has none; more may be added.")]
    error_code: Annotated[int, Meta(description="Kafka's error number; -1 where Kafka has none.")]
    retriable: Annotated[bool, Meta(description="Whether the same request may succeed later.")]
    errors: Annotated[
        tuple[ProblemField, ...] | UnsetType | None,
        Meta(
            description="The invalid fields, if the request is refused because of fields. Reading stops at the first "
            "field that is missing, unknown or of the wrong type, so there may be more."
        ),
    ] = UNSET
    oldest_token: Annotated[
        str | UnsetType, Meta(description="With OFFSET_OUT_OF_RANGE: the oldest token that works.")
    ] = UNSET
    chain: Annotated[
        Sequence[str] | UnsetType,
        Meta(
            description="With AUTHORIZER_NOT_READY from watch: the ids of the followers from this one up to the store."
        ),
    ] = UNSET


class InvalidFieldsException(InvalidRequestException):
    def __init__(self, errors: Sequence[ProblemField]) -> None:
        first = errors[0]
        where = f"`{first.pointer}`: " if first.pointer else ""
        more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{where}{first.detail}{more}")
        self.errors = tuple(errors[:MAX_FIELD_ERRORS])


class UnsupportedMediaTypeException(InvalidRequestException):
    """The body is not what Content-Type or Content-Encoding may say."""


class MethodNotAllowedException(InvalidRequestException):
    """The path exists, but not with this method."""

    def __init__(self, allow: str) -> None:
        super().__init__(f"this path accepts only {allow}")
        self.allow = allow


class BodyTimedOutException(InvalidRequestException):
    """The body did not arrive in time."""


class RemovedPathException(ResourceNotFoundException):
    """An earlier version had this path."""


_STATUS_OF_EXCEPTION: dict[type[ApiException], int] = {
    RequestTooLargeException: 413,
    UnsupportedMediaTypeException: 415,
    MethodNotAllowedException: 405,
    BodyTimedOutException: 408,
    RemovedPathException: 410,
}


def invalid_field(pointer: str, detail: str) -> InvalidFieldsException:
    return InvalidFieldsException([ProblemField(pointer, detail)])


def not_found(path: str) -> ResourceNotFoundException:
    if path == _OPA_PATH or path.startswith(f"{_OPA_PATH}/"):
        return RemovedPathException(
            "Klamm no longer answers OPA's Kafka plugin; set Klamm's own authorizer in the broker, or ask "
            "`POST /v1/authorize` (docs/migration.md)"
        )
    return ResourceNotFoundException(f"there is nothing at `{path[:200]}`; openapi.json lists every path")


def status_of(refusal: ApiException) -> int:
    return _STATUS_OF_EXCEPTION.get(type(refusal)) or STATUS_OF_ERROR[refusal.error]


def problem_response(refusal: ApiException) -> Response:
    status = status_of(refusal)
    code = refusal.error.value
    body = Problem(
        type=f"urn:klamm:error:{code}",
        title=code.replace("_", " ").capitalize(),
        status=status,
        detail=refusal.message,
        code=code,
        error_code=refusal.error.error_code,
        retriable=refusal.error.retriable,
        errors=refusal.errors if isinstance(refusal, InvalidFieldsException) else UNSET,
        oldest_token=getattr(refusal, "oldest_token", None) or UNSET,
        chain=getattr(refusal, "chain", ()) or UNSET,
    )
    return Response(msgspec.json.encode(body), status, _headers_of(refusal, status), PROBLEM_MEDIA_TYPE)


def _headers_of(refusal: ApiException, status: int) -> dict[str, str]:
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["retry-after"] = str(RETRY_AFTER_S)
    if status == _UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    if isinstance(refusal, MethodNotAllowedException):
        headers["allow"] = refusal.allow
    return headers


def unexpected(fault: Exception) -> ApiException:
    """The refusal, which names no cause, only where the log has it."""
    mark = REQUEST_MARK.get()
    _LOG.error("request_failed", exc_info=fault)
    where = "" if mark is None else f" under request id `{mark.request_id}`"
    return ApiException(f"an unexpected error; its cause is in the service's log{where}")


def response_to(fault: Exception) -> Response:
    return problem_response(fault if isinstance(fault, ApiException) else unexpected(fault))


class ItemOutcome(TypedDict):
    error_code: int
    code: str
    error_message: str | None


def item_outcome(refusal: ApiException | None) -> ItemOutcome:
    """The outcome of one entry of a batch; None is success."""
    error = Errors.NONE if refusal is None else refusal.error
    return {
        "error_code": error.error_code,
        "code": error.value,
        "error_message": None if refusal is None else refusal.message,
    }
