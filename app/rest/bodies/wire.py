"""Bodies as msgspec structs, and the proof that nothing in them came twice.

msgspec takes the last of duplicate keys in silence. Without a backslash in the body (so without an escaped quote)
every `:` in it follows a key or stands in a text, and each key that came is either kept or was overwritten. What was
kept, written as JSON again, has a colon for each kept key and those of the kept texts: if these are as many as came,
nothing was overwritten. A body that does not add up, or that holds a backslash, is read once more by
`app.rest.bodies.strict_json`, which is exact.
"""

from collections.abc import Iterable
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.validation import MAX_TEXT_BYTES
from app.rest.bodies import schemas
from app.rest.bodies.strict_json import MAX_CONTAINERS, check_bounds, check_count, parse
from app.rest.errors import FieldError, InvalidFieldsException

S = TypeVar("S", bound=msgspec.Struct)

Int16 = Annotated[int, Meta(ge=schemas.INT16_MIN, le=schemas.INT16_MAX)]
Int32 = Annotated[int, Meta(ge=schemas.INT32_MIN, le=schemas.INT32_MAX)]

Text = str | UnsetType | None
_SURELY_SHORT = MAX_TEXT_BYTES // 4
"""Characters that are within the bound whatever they are; nearly all requests are asked no more."""


def check_lengths(texts: Iterable[tuple[str, Text]]) -> None:
    """Refuse what no string of Kafka's protocol holds, each by its pointer. Raises InvalidFieldsException."""
    too_long = [at for at, text in texts if isinstance(text, str) and schemas.is_too_long(text)]
    if too_long:
        raise InvalidFieldsException([FieldError(at, schemas.TOO_LONG) for at in too_long])


class Context(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`schemas.AuthorizableRequestContext`, field by field (a test holds them together)."""

    principal: str
    client_address: str
    listener_name: str | UnsetType | None = UNSET
    security_protocol: str | UnsetType | None = UNSET
    request_type: Int16 | UnsetType | None = UNSET
    request_version: Int16 | UnsetType | None = UNSET
    client_id: str | UnsetType | None = UNSET
    correlation_id: Int32 | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        # INVARIANT: logs repeat these texts, so no context has one without a bound.
        if (
            len(self.principal) <= _SURELY_SHORT
            and len(self.client_address) <= _SURELY_SHORT
            and (not self.listener_name or len(self.listener_name) <= _SURELY_SHORT)
            and (not self.security_protocol or len(self.security_protocol) <= _SURELY_SHORT)
            and (not self.client_id or len(self.client_id) <= _SURELY_SHORT)
        ):
            return
        check_lengths(
            (
                ("/context/principal", self.principal),
                ("/context/client_address", self.client_address),
                ("/context/listener_name", self.listener_name),
                ("/context/security_protocol", self.security_protocol),
                ("/context/client_id", self.client_id),
            )
        )


class Action(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`schemas.Action`, field by field."""

    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str | UnsetType = UNSET
    resource_reference_count: Int32 | UnsetType = UNSET
    log_if_allowed: bool | UnsetType = UNSET
    log_if_denied: bool | UnsetType = UNSET


class AuthorizeRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`schemas.AuthorizeRequest`, field by field."""

    context: Context
    actions: list[Action]
    at_least: str | UnsetType | None = UNSET
    with_rules: bool | UnsetType = UNSET


class UndecodedException(InvalidRequestException):
    """The body is none of a struct; `app.rest.bodies.reading.BodyReader` finds the words that every other route has."""


class StructReader(Generic[S]):
    """Reads bodies into a struct."""

    def __init__(self, struct: type[S]) -> None:
        self._decode = msgspec.json.Decoder(struct).decode

    def read(self, body: bytes) -> S:
        """The request in a body. Raises InvalidRequestException, UndecodedException if it is not well-formed."""
        if len(body) > MAX_CONTAINERS:
            # An empty object has no colon: the proof below would let any number of them pass.
            check_bounds(body)
        try:
            request = self._decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise UndecodedException(str(fault)) from None
        if b"\\" in body or body.count(b":") != _ENCODER.encode(request).count(b":"):
            parse(body)
        return request


_ENCODER = msgspec.json.Encoder()
_AUTHORIZE = StructReader(AuthorizeRequest)


def decode_authorize(body: bytes) -> AuthorizeRequest:
    """The request in a body. Raises InvalidRequestException, UndecodedException if it is not well-formed."""
    request = _AUTHORIZE.read(body)
    check_count("/actions", len(request.actions))
    return request
