"""What watch is asked for, and an example of what it sends."""

import json
from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.core.kafka.codes import PatternType, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.rest.bodies.examples import EPOCH, Example, acl_example
from app.rest.bodies.fields import unknown_word

MAX_BOOKMARK_MS = 5_000


class WatchQuery(BaseModel):
    """The parameters of watch."""

    model_config = ConfigDict(frozen=True)

    after: Annotated[
        str | None,
        Field(
            description="A token: start after this state. The header Last-Event-ID takes precedence. A token of an "
            "earlier epoch of the store needs the header `Klamm-Epochs: 1` (docs/watch.md)."
        ),
    ] = None
    snapshot: Annotated[bool, Field(description="Start with the whole current state.")] = False
    bookmark_ms: Annotated[
        int,
        Field(
            ge=200,
            le=MAX_BOOKMARK_MS,
            description="How often a reader that has caught up gets a bookmark, in milliseconds.",
        ),
    ] = MAX_BOOKMARK_MS
    resource_type: Annotated[str, Field(description="Only ACLs for this resource type; ANY means all.")] = "ANY"
    resource_name: Annotated[
        str | None, Field(description="Only ACLs with this resource name, as in the filters of acls.")
    ] = None
    pattern_type: Annotated[
        str, Field(description="As in the filters of acls: MATCH selects every pattern that covers the name.")
    ] = "ANY"
    principal: Annotated[str | None, Field(description="Only ACLs of exactly this principal.")] = None

    @model_validator(mode="after")
    def _begins_somewhere(self) -> Self:
        if self.snapshot and self.after is not None:
            raise ValueError("`after` and `snapshot` can't be combined; send one of them")
        return self

    @property
    def acl_filter(self) -> AclBindingFilter | None:
        """None if all ACLs are asked for. Raises InvalidRequestException."""
        _check_word("resource_type", self.resource_type, ResourceType.__members__)
        _check_word("pattern_type", self.pattern_type, PatternType.__members__)
        asked = AclBindingFilter(
            ResourceType[self.resource_type], self.resource_name, PatternType[self.pattern_type], self.principal
        )
        return None if asked == AclBindingFilter() else asked


def _check_word(name: str, word: str, known: Iterable[str]) -> None:
    if word not in known:
        raise InvalidRequestException(f"query parameter `{name}`: {unknown_word(word, known)}")


_HASH = "5e8f1b0a9c7d4e63a2f10b8c7d6e5f4a39281706f5e4d3c2b1a0998877665544"
_DIGEST = "6c1d5a63e3cf58029298809575042625fd113eedc0d98e588a39e9ae5d73e1b3"
_RECORD = {
    "kind": "AccessControlEntryRecord",
    "hash_version": 1,
    "actor": "User:admin",
    "comment": None,
    "acl": {
        **acl_example("TOPIC orders LITERAL User:alice * READ ALLOW", "4f3e2d1c-6b7a-4859-9c0d-1e2f3a4b5c55"),
        "expires_at": None,
        "owner": None,
    },
}
_TRANSACTION = {
    "type": "transaction",
    "token": f"{EPOCH}:349",
    "first_offset": 349,
    "last_offset": 349,
    "recorded_at": "2026-11-23T05:07:00.123456Z",
    "hash": _HASH,
    "records": [_RECORD],
}
_BOOKMARK = {
    "type": "bookmark",
    "token": f"{EPOCH}:349",
    "hash": _HASH,
    "digest": _DIGEST,
    "age_ms": 312,
    "store_time": "2026-11-23T05:07:03.456789Z",
}

WATCH_EXAMPLE = Example(
    parameters={"after": f"{EPOCH}:348"},
    reply="".join(
        f"id: {each['token']}\nevent: {each['type']}\ndata: {json.dumps(each)}\n\n"
        for each in (_TRANSACTION, _BOOKMARK)
    ),
)
