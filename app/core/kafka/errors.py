"""Kafka's error codes and the exceptions that carry them; no HTTP in here.

Kafka 4.4.0 gives AuthorizerNotReadyException no code of its own (-1 on the wire), so its name is Klamm's.
"""

from collections.abc import Sequence
from enum import Enum
from typing import ClassVar, Self


class Errors(Enum):
    """Kafka's error name as the value, and its number; names that Kafka does not number have -1."""

    error_code: int

    def __new__(cls, name: str, error_code: int = -1) -> Self:
        member = object.__new__(cls)
        member._value_, member.error_code = name, error_code
        return member

    NONE = "NONE", 0
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    AUTHORIZER_NOT_READY = "AUTHORIZER_NOT_READY"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    OVERLOADED = "OVERLOADED"
    TOKEN_EPOCH_MISMATCH = "TOKEN_EPOCH_MISMATCH"
    TOKEN_EPOCH_INVALID = "TOKEN_EPOCH_INVALID"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE", 1
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT", 7
    TOPIC_AUTHORIZATION_FAILED = "TOPIC_AUTHORIZATION_FAILED", 29
    GROUP_AUTHORIZATION_FAILED = "GROUP_AUTHORIZATION_FAILED", 30
    CLUSTER_AUTHORIZATION_FAILED = "CLUSTER_AUTHORIZATION_FAILED", 31
    INVALID_REQUEST = "INVALID_REQUEST", 42
    POLICY_VIOLATION = "POLICY_VIOLATION", 44
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 53
    SECURITY_DISABLED = "SECURITY_DISABLED", 54
    SASL_AUTHENTICATION_FAILED = "SASL_AUTHENTICATION_FAILED", 58
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = "DELEGATION_TOKEN_AUTHORIZATION_FAILED", 65
    OFFSET_NOT_AVAILABLE = "OFFSET_NOT_AVAILABLE", 78
    THROTTLING_QUOTA_EXCEEDED = "THROTTLING_QUOTA_EXCEEDED", 89
    RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND", 91
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION", 95
    INCONSISTENT_CLUSTER_ID = "INCONSISTENT_CLUSTER_ID", 104

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self in _RETRIABLE


_RETRIABLE = {
    Errors.AUTHORIZER_NOT_READY,
    Errors.STORE_UNAVAILABLE,
    Errors.OVERLOADED,
    Errors.REQUEST_TIMED_OUT,
    Errors.OFFSET_NOT_AVAILABLE,
    Errors.THROTTLING_QUOTA_EXCEEDED,
}


class ApiException(Exception):
    """A refusal with a Kafka error name; `message` is for the caller."""

    error: ClassVar[Errors] = Errors.UNKNOWN_SERVER_ERROR

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UnknownServerException(ApiException):
    """The cause is in the log, not in the text."""


class AuthorizerNotReadyException(ApiException):
    """The image has not reached the high watermark seen at start (KIP-801)."""

    error = Errors.AUTHORIZER_NOT_READY

    def __init__(self, message: str, chain: Sequence[str] = ()) -> None:
        """`chain` is that of a follower (runtime's `ChangeFeed`)."""
        super().__init__(message)
        self.chain = chain


class StoreUnavailableException(ApiException):
    """PostgreSQL could not be reached; nothing of the update was kept."""

    error = Errors.STORE_UNAVAILABLE


class OverloadedException(ApiException):
    """A queue is at its bound; nothing of the request was done."""

    error = Errors.OVERLOADED


class TokenEpochMismatchException(ApiException):
    """The request's token is not a part of the store's history: what it stands for is lost."""

    error = Errors.TOKEN_EPOCH_MISMATCH


class TokenEpochInvalidException(ApiException):
    """The token's epoch lies more than a day ahead of the store's clock, so no store has begun it."""

    error = Errors.TOKEN_EPOCH_INVALID


class OffsetOutOfRangeException(ApiException):
    """The records behind the token are trimmed, or were never written."""

    error = Errors.OFFSET_OUT_OF_RANGE

    def __init__(self, message: str, oldest_token: str | None = None) -> None:
        super().__init__(message)
        self.oldest_token = oldest_token


class RequestTimedOutException(ApiException):
    """The deadline passed; whether the update was kept is unknown to this process."""

    error = Errors.REQUEST_TIMED_OUT


class ClusterAuthorizationException(ApiException):
    """The context's principal lacks the right on the cluster (KIP-140)."""

    error = Errors.CLUSTER_AUTHORIZATION_FAILED


class InvalidRequestException(ApiException):
    error = Errors.INVALID_REQUEST


class RequestTooLargeException(InvalidRequestException):
    """The body is larger than the route takes."""


class PolicyViolationException(ApiException):
    error = Errors.POLICY_VIOLATION


class SecurityDisabledException(ApiException):
    """`authorizer.enabled=false`: there are no ACLs to speak of."""

    error = Errors.SECURITY_DISABLED


class SaslAuthenticationException(ApiException):
    """The caller did not prove who it is; why is in the log, not in the text."""

    error = Errors.SASL_AUTHENTICATION_FAILED


class ThrottlingQuotaExceededException(ApiException):
    """The caller asks more often than its quota allows (KIP-599's error)."""

    error = Errors.THROTTLING_QUOTA_EXCEEDED


class OffsetNotAvailableException(ApiException):
    """The image did not reach the caller's token within the deadline."""

    error = Errors.OFFSET_NOT_AVAILABLE


class ResourceNotFoundException(ApiException):
    error = Errors.RESOURCE_NOT_FOUND


class InvalidUpdateVersionException(ApiException):
    """The store no longer stands where the update expects it (`if_unchanged_since`); nothing of it was written."""

    error = Errors.INVALID_UPDATE_VERSION


class InconsistentClusterIdException(ApiException):
    error = Errors.INCONSISTENT_CLUSTER_ID


class PoisonedRecordException(Exception):
    """A record of the change feed can't be applied; nothing of its transaction was.

    The offset is -1 if no single record is at fault.
    """

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(f"record {offset}: {why}" if offset >= 0 else why)
        self.offset = offset
        self.why = why


class UnknownRecordException(PoisonedRecordException):
    """A record, or an ACL of a snapshot, of a later version than this one: it may be right, but can't be read here."""
