"""What a service answers: ServiceError, and the results of the ACL calls (KIP-140)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from app.core.kafka.bindings import AclBinding, AclTerms, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.command_errors import CommandError

_NONE = "NONE"


class ServiceError(CommandError):
    """`code` is Kafka's error name and `status` the HTTP status, as far as the service gave them.

    `outcome_unknown`: the call was an update, and it is not known whether it was made. `again`: asking again, after at
    least `wait_s` seconds, may work. `answered`: a connection was made. `oldest_token` is the oldest that works, if a
    stream can't go on.
    """

    again = False
    wait_s = 0.0
    answered = True
    oldest_token: str | None = None

    def __init__(
        self, text: str, *, code: str | None = None, status: int | None = None, outcome_unknown: bool = False
    ) -> None:
        super().__init__(text)
        self.code = code
        self.status = status
        self.outcome_unknown = outcome_unknown


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one entry of a call was refused: Kafka's error name and number, and a text."""

    code: str
    error_code: int
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class CreateResult:
    """`created` is False if the ACL existed already, or was refused."""

    id: UUID | None
    created: bool
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """`matches` are the deleted ACLs."""

    matches: tuple[StandardAcl, ...]
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class AclListing:
    """Sorted, and all as of `token`."""

    acls: list[StandardAcl]
    token: str


def parse_acl(body: object) -> StandardAcl:
    """Words that this version doesn't know become UNKNOWN. Raises ServiceError if it is no ACL."""
    fields = parse_object(body)
    return StandardAcl(_id(fields), parse_binding(body), *parse_terms(body))


def parse_terms(body: object) -> AclTerms:
    fields = parse_object(body)
    return AclTerms(_expires_at(fields), _owner(fields))


def parse_binding(body: object) -> AclBinding:
    fields = parse_object(body)
    return AclBinding(
        ResourceType.from_string(parse_text(fields, "resource_type")),
        parse_text(fields, "resource_name"),
        PatternType.from_string(parse_text(fields, "pattern_type")),
        parse_text(fields, "principal"),
        parse_text(fields, "host"),
        AclOperation.from_string(parse_text(fields, "operation")),
        AclPermissionType.from_string(parse_text(fields, "permission_type")),
    )


def parse_created(body: object) -> CreateResult:
    fields = parse_object(body)
    refusal = _refusal(fields)
    acl_id = None if refusal is not None else _id(fields)
    return CreateResult(acl_id, fields.get("created") is True, refusal)


def parse_deleted(body: object) -> DeleteResult:
    """If one match was refused, the result is refused too."""
    fields = parse_object(body)
    refusal = _refusal(fields)
    matches = []
    for each in parse_list(fields, "matches"):
        own = _refusal(parse_object(each))
        if own is None:
            matches.append(parse_acl(each))
        refusal = refusal or own
    return DeleteResult(tuple(matches), refusal)


def parse_refusal(body: object) -> Refusal | None:
    return _refusal(parse_object(body))


def parse_object(body: object) -> Mapping[str, object]:
    if not isinstance(body, dict):
        raise strange_reply("an object is missing")
    return body


def parse_list(fields: Mapping[str, object], name: str) -> list[object]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise strange_reply(f"the list `{name}` is missing")
    return value


def parse_text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise strange_reply(f"the text `{name}` is missing")
    return value


def text_or_none(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def parse_acls(fields: Mapping[str, object], name: str) -> list[StandardAcl]:
    return [parse_acl(each) for each in parse_list(fields, name)]


def count_of(fields: Mapping[str, object], name: str, listed: Sequence[object]) -> int:
    """How many there are, of which only some may be listed."""
    count = fields.get(name)
    return count if isinstance(count, int) else len(listed)


def strange_reply(what: str) -> ServiceError:
    return ServiceError(f"the answer is not from Klamm: {what}; check the address (--klamm)")


def _id(fields: Mapping[str, object]) -> UUID:
    try:
        return UUID(parse_text(fields, "id"))
    except ValueError:
        raise strange_reply("`id` is not a UUID") from None


def _expires_at(fields: Mapping[str, object]) -> datetime | None:
    """None also from a service that has no ends yet."""
    if fields.get("expires_at") is None:
        return None
    try:
        return datetime.fromisoformat(parse_text(fields, "expires_at")).astimezone(UTC)
    except ValueError:
        raise strange_reply("`expires_at` is not a time") from None


def _owner(fields: Mapping[str, object]) -> str | None:
    return None if fields.get("owner") is None else parse_text(fields, "owner")


def _refusal(fields: Mapping[str, object]) -> Refusal | None:
    code = parse_text(fields, "code")
    if code == _NONE:
        return None
    number, message = fields.get("error_code"), text_or_none(fields, "error_message")
    return Refusal(code, number if isinstance(number, int) else -1, code if message is None else message)
