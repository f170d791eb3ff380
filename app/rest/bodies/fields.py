"""What several bodies have: the context of a request, and fields of one meaning.

A field that did not come is UNSET, whatever its default is: `app.rest.bodies.reading` counts what came.
"""

from collections.abc import Collection, Iterable
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.core.groups import MAX_GROUP_NAME, MAX_GROUPS, Groups, groups_of
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.validation import MAX_COMMENT, MAX_TEXT_BYTES
from app.core.readable import backticked
from app.core.times import NotATimeError, parse_time
from app.rest.errors import InvalidFieldsException, ProblemField

T = TypeVar("T")


class SentTime(str):
    """A time of RFC 3339, as it was sent."""

    __slots__ = ()


def read_sent(kind: type, value: object) -> object:
    """What msgspec calls for a SentTime in a body. Raises ValueError, which msgspec turns into its own."""
    if kind is not SentTime or not isinstance(value, str):
        raise ValueError("the value is not text; send a string")
    try:
        parse_time(value)
    except NotATimeError as fault:
        raise ValueError(f"the value is {fault}") from None
    return SentTime(value)


def schema_of_sent(_: type) -> dict[str, object]:
    return {"type": "string", "format": "date-time"}


MAX_ITEMS = 1_000
_MAX_WAIT_MS = 300_000

OPERATION_CODES = {word: int(member) for word, member in AclOperation.__members__.items()}
RESOURCE_TYPE_CODES = {word: int(member) for word, member in ResourceType.__members__.items()}
LITERAL = PatternType.LITERAL.name


def _one_of(enum: type[AclOperation | AclPermissionType | PatternType | ResourceType]) -> Meta:
    # Only the document names the words; a body may hold any text, so that a word from the future can be refused where
    # it stands and not with the whole request.
    return Meta(extra_json_schema={"$ref": f"#/components/schemas/{enum.__name__}"})


def doc(description: str, **more: object) -> Meta:
    """A field's description, and more of its JSON schema. `default` is what an absent field means."""
    return Meta(description=description, extra_json_schema=more or None)


ResourceTypeWord = Annotated[str, _one_of(ResourceType)]
PatternTypeWord = Annotated[str, _one_of(PatternType)]
AclOperationWord = Annotated[str, _one_of(AclOperation)]
AclPermissionTypeWord = Annotated[str, _one_of(AclPermissionType)]

Int16 = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
WaitMs = Annotated[int, Meta(ge=0, le=_MAX_WAIT_MS)]

BYTES = f"At most {MAX_TEXT_BYTES:,} bytes of UTF-8, as in Kafka's protocol."
"""For descriptions; JSON Schema's `maxLength` counts characters."""

ClientAddressText = Annotated[
    str, Meta(description="The client's IP address; never a host name.", examples=["10.1.2.3"])
]
ResourceName = Annotated[str, Meta(description="The full name of the resource; the cluster's is `kafka-cluster`.")]
Text = str | UnsetType | None
AtLeast = Annotated[Text, doc("A token: answer from this state of the store, or a later one.")]
At = Annotated[
    Text,
    doc(
        "A token, or a time such as `2026-11-30T18:00:00Z`: answer from the ACLs and properties as they were then (410 "
        "if they are no longer kept). The right to ask is always checked against the current ACLs."
    ),
]
Comment = Annotated[
    Text,
    doc(f"The reason, such as a ticket, in one line of 1 to {MAX_COMMENT} characters. Kept with the change."),
]
IfUnchangedSince = Annotated[
    Text,
    doc(
        "A token: the change is written only if the store is still in exactly this state (412 otherwise). The token "
        "in the reply is then the state right after this change; send it with the next one. If absent or null, there "
        "is no guard, and the change is written whatever the state of the store."
    ),
]
TimeoutMs = Annotated[WaitMs | UnsetType | None, doc("How long to wait until this replica has applied the change.")]
SearchTimeoutMs = Annotated[
    WaitMs | UnsetType | None,
    doc(
        "How long the answer may take: 503 if this replica does not reach `at_least` by then, 504 if the search takes "
        "longer. If absent or null, `request.timeout.ms` limits the wait for `at_least`, and nothing the search. A "
        "search with `at` is not cut short."
    ),
]
Token = Annotated[
    str | None,
    doc("The state of the store that this answer is based on, to send as `at_least`; null before the first load."),
]
ErrorCode = Annotated[int, doc("Kafka's error number; 0 means no error.")]
Code = Annotated[
    str,
    doc(
        "Kafka's error name: NONE, INVALID_REQUEST, POLICY_VIOLATION, "
        "SECURITY_DISABLED, TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED, DELEGATION_TOKEN_AUTHORIZATION_FAILED or UNKNOWN_SERVER_ERROR; "
        "more may be added."
    ),
]

GroupNames = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=MAX_GROUP_NAME)], ...],
    Meta(max_length=MAX_GROUPS, examples=[["payments-team"]], extra_json_schema={"uniqueItems": True}),
]
AskedPrincipal = Annotated[str, doc(f"`type:name`, for example `User:bob`. {BYTES}", examples=["User:bob"])]
"""The principal that a question is about."""
AskedGroups = Annotated[GroupNames | UnsetType | None, doc("The groups that the principal is in.")]


class Request(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A body that a caller sends: no unknown field, no conversion."""


class Reply(msgspec.Struct, gc=False):
    """A body that the service sends."""


class Outcome(Reply):
    """What every entry of a batch is answered with."""

    error_code: ErrorCode
    code: Code
    error_message: Annotated[str | None, doc("Why this entry was refused; null if it was not.")]


class AuthorizableRequestContext(Request):
    """The principal that sent the request, and details of that request (KIP-504)."""

    principal: Annotated[str, doc(f"`type:name`, for example `User:alice`. {BYTES}", examples=["User:alice"])]
    client_address: ClientAddressText
    listener_name: Annotated[Text, doc(f"The broker's listener that received the request, for the logs. {BYTES}")] = (
        UNSET
    )
    security_protocol: Annotated[Text, doc(f"That listener's protocol, such as SASL_SSL, for the logs. {BYTES}")] = (
        UNSET
    )
    request_type: Annotated[Int16 | UnsetType | None, doc("Kafka's API key, for the audit log.")] = UNSET
    request_version: Annotated[Int16 | UnsetType | None, doc("The version of that API, for the decision log.")] = UNSET
    client_id: Annotated[Text, doc(f"The client's id as it sends it, for the logs. {BYTES}")] = UNSET
    correlation_id: Annotated[
        Int32 | UnsetType | None, doc("The id of the client's request, for the decision log.")
    ] = UNSET
    groups: Annotated[
        GroupNames | UnsetType | None,
        doc(
            "Groups of the principal, each listed once: ACLs of `Group:<name>` apply to it, too. The caller must be "
            "configured to assert them."
        ),
    ] = UNSET

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


_SURELY_SHORT = MAX_TEXT_BYTES // 4
"""Characters that are within the bound, whatever they are."""
_TOO_LONG = (
    f"the text is longer than {MAX_TEXT_BYTES} bytes of UTF-8, the limit of strings in Kafka's protocol; "
    "send a shorter one"
)


def check_lengths(texts: Iterable[tuple[str, Text]]) -> None:
    """Refuse texts that no string of Kafka's protocol holds. Raises InvalidFieldsException."""
    errors = [
        ProblemField(pointer, _TOO_LONG)
        for pointer, text in texts
        if isinstance(text, str)
        and len(text) > _SURELY_SHORT
        and len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES
    ]
    if errors:
        raise InvalidFieldsException(errors)


def read_groups(names: GroupNames | UnsetType | None, where: str = "/context") -> Groups | None:
    """Raises InvalidFieldsException for one that comes twice."""
    if not names:
        return None
    groups = groups_of(names)
    if groups is not None and len(groups.principals) < len(names):
        errors = [
            ProblemField(f"{where}/groups/{at}", f"{backticked(name)} is listed more than once; send each group once")
            for at, name in enumerate(names)
            if name in names[:at]
        ]
        raise InvalidFieldsException(errors)
    return groups


def check_words(*words: tuple[str, str | None, Collection[str]]) -> None:
    """Refuse words that Kafka doesn't know, each given by its pointer. Raises InvalidFieldsException."""
    errors = [
        ProblemField(pointer, unknown_word(word, known))
        for pointer, word, known in words
        if word is not None and word not in known
    ]
    if errors:
        raise InvalidFieldsException(errors)


def unknown_word(word: str, codes: Iterable[str]) -> str:
    return f"`{word[:100]}` is not a value that Kafka knows; send one of {', '.join(codes)}"


def seconds(milliseconds: int | UnsetType | None) -> float | None:
    limit = given(milliseconds)
    return None if limit is None else limit / 1000


def given(value: T | UnsetType | None) -> T | None:
    """An absent field means the same as null."""
    return None if value is UNSET else value
