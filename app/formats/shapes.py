"""What the shape of a format may say: its blocks and fields at every level, as msgspec structs.

A struct names each field that a block may have. What it doesn't name is refused, at every level, with its line and the
nearest name that is known; what it names as `PassedOver` is not looked at. The types that a field may have:

    str             a text; a number, a date or a truth value without quotes is none
    Literal["a"]    one of these words
    bool, int       a truth value, a number
    list[T]         a list; `Filled[T]`: not an empty one
    dict[str, T]    a mapping with names of the user's own
    Others[T]       those fields of a block that no other field of its struct names
    Blocks[T]       a T or a list of several, as HCL's JSON has blocks; the reader gets a list
    a Shape         a block
    ResourceTypeWord, PatternTypeWord, OperationWord, PermissionTypeWord
                    a word of Kafka's that an ACL may have
    Each[T]         a list, which may be long: `read_each` reads its items, one at a time, and the field is empty
    Prose           a text that may go on in the next lines without quotes; no other may
    Single          one value, be it text, number, date or truth value, or null; it says nothing about an ACL
    PassedOver      whatever it is, it says nothing about an ACL
    Raw             whatever it is, for the reader to look at
    T | None        the same, or null

`Annotated[str, as_text(read)]` is a text of which `read` makes another one; `as_word` takes one that a format has for
a word of Kafka's. `Annotated[Any, as_refused(text)]` is a known field that can't be taken. A field with a default may
be missing; with the default UNSET, the reader sees whether it was. Null is as good as missing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from app.core.kafka.codes import AclOperation, AclPermissionType, KafkaCode, PatternType, ResourceType
from app.core.spelling import nearest
from app.formats.acl_entries import MAX_SHOWN, VAGUE

PassedOver: TypeAlias = Any
Raw: TypeAlias = Annotated[Any, msgspec.Meta(extra={"as": "raw"})]
Single: TypeAlias = Annotated[Any, msgspec.Meta(extra={"as": "single"})]
Prose: TypeAlias = Annotated[str, msgspec.Meta(extra={"as": "prose"})]

_T = TypeVar("_T")
Filled: TypeAlias = Annotated[list[_T], msgspec.Meta(min_length=1)]
Each: TypeAlias = Annotated[list[_T], msgspec.Meta(extra={"as": "each"})]
Blocks: TypeAlias = Annotated[list[_T], msgspec.Meta(extra={"as": "blocks"})]
Others: TypeAlias = Annotated[dict[str, _T], msgspec.Meta(extra={"as": "others"})]


class Shape(msgspec.Struct, kw_only=True, gc=False):
    """A block. `line` is where it begins in the file."""

    line: int = 0


def as_refused(text: str) -> msgspec.Meta:
    """`text` is why no value can be taken, and what to do."""
    return msgspec.Meta(extra={"as": "refused", "text": text})


def as_text(read: Callable[[str], str]) -> msgspec.Meta:
    """`read` makes of the text what the reader gets, or raises ValueError with what is wrong with it."""
    return msgspec.Meta(extra={"as": "text", "read": read})


def as_word(known: Mapping[str, str]) -> msgspec.Meta:
    """The words of a format, and what the reader gets for each."""
    return as_text(of_words(known))


def no_such_word(text: str, known: Sequence[str], expected: str = "one of its values") -> str:
    """What is wrong with a text that is none of these words."""
    meant = nearest(text, known)
    way_out = f"did you mean {meant}?" if meant else f"write one of {', '.join(known)}"
    return f"`{text[:MAX_SHOWN]}` is not {expected}; {way_out}"


def of_words(known: Mapping[str, str], expected: str = "one of its values") -> Callable[[str], str]:
    """A reader of these words, which gives what each stands for."""

    def read(text: str) -> str:
        word = known.get(text)
        if word is None:
            raise ValueError(no_such_word(text, list(known), expected))
        return word

    return read


def _as_kafkas(words: type[KafkaCode]) -> msgspec.Meta:
    known = {each.name: each.name for each in words if each.name not in VAGUE}
    return as_text(of_words(known, "a value that Kafka knows"))


ResourceTypeWord: TypeAlias = Annotated[str, _as_kafkas(ResourceType)]
PatternTypeWord: TypeAlias = Annotated[str, _as_kafkas(PatternType)]
OperationWord: TypeAlias = Annotated[str, _as_kafkas(AclOperation)]
PermissionTypeWord: TypeAlias = Annotated[str, _as_kafkas(AclPermissionType)]
