"""The whole shape of a format, its blocks and fields at every level, as msgspec structs; a value is read by its shape.

A struct names each field that a block may have. What it doesn't name is refused, at every level, with its line and the
nearest name that is known; what it names as `PassedOver` is not looked at. The types that a field may have:

    str             a text; a number, a date or a truth value without quotes is none
    Literal["a"]    one of these words
    bool, int       a truth value, a number
    list[T]         a list; `Filled[T]`: not an empty one
    dict[str, T]    a mapping with names of the user's own
    a Shape         a block
    ResourceTypeWord, PatternTypeWord, OperationWord, PermissionTypeWord
                    a word of Kafka's that an ACL may have
    Each[T]         a list, which may be long: `read_each` reads its items, one at a time, and the field is empty
    PassedOver      whatever it is, it says nothing about an ACL
    Raw             whatever it is, for the reader to look at
    T | None        the same, or null

A field with a default may be missing; with the default UNSET, the reader sees whether it was.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from app.core.kafka.bindings import NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.spelling import nearest
from app.formats.acl_entries import MAX_SHOWN, VAGUE, Entry, Problem
from app.formats.json_walk import JsonItems
from app.formats.lines import TextFault
from app.formats.reading import Reading
from app.formats.yaml_documents import (
    Fields,
    Items,
    Scalar,
    Value,
    is_null,
    is_text,
    line_of,
    truth_of,
    whole_number_of,
)

PassedOver: TypeAlias = Any
Raw: TypeAlias = Annotated[Any, msgspec.Meta(extra={"raw": True})]

_T = TypeVar("_T")
Filled: TypeAlias = Annotated[list[_T], msgspec.Meta(min_length=1)]
Each: TypeAlias = Annotated[list[_T], msgspec.Meta(extra={"each": True})]

ResourceTypeWord: TypeAlias = Annotated[str, msgspec.Meta(extra={"words": ResourceType})]
PatternTypeWord: TypeAlias = Annotated[str, msgspec.Meta(extra={"words": PatternType})]
OperationWord: TypeAlias = Annotated[str, msgspec.Meta(extra={"words": AclOperation})]
PermissionTypeWord: TypeAlias = Annotated[str, msgspec.Meta(extra={"words": AclPermissionType})]


class Shape(msgspec.Struct, kw_only=True, gc=False):
    """A block. `line` is where it begins in the file."""

    line: int = 0


_S = TypeVar("_S", bound=msgspec.Struct)
_LINE = "line"
Fault: TypeAlias = tuple[int, Problem]
Place: TypeAlias = tuple[str, ...]


class Refused(Exception):
    """A value has not the shape. `faults` are all that is wrong with it, each with its line."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults

    def entries(self) -> Iterator[Entry]:
        return ((line, [problem]) for line, problem in self.faults)


def read_shape(
    shape: type[_S],
    value: Value,
    reading: Reading,
    place: Place = (),
    within: type[msgspec.Struct] | None = None,
) -> _S:
    """The value as this struct. Raises Refused.

    `place` is where it stands in the whole resource, and `within` the shape of that one, if this is but a part of it.
    """
    check = _Check(reading, (shape, place) if within is None else (within, ()))
    found = _reader(shape)(check, value, place)
    if check.faults:
        raise Refused(check.faults)
    return found  # type: ignore[no-any-return]  # the reader of a struct gives that struct


def read_each(
    items: Value | None,
    entry_of: Callable[[Value], Entry | None],
    quickly: Callable[[bytes], NewAcl | None] | None = None,
) -> Iterator[Entry]:
    """The entries of a list's items, as of `read_one`; none if there is no list.

    `quickly` reads the text of an item of JSON, and gives None if there may be something wrong with it.
    """
    values = items.value if isinstance(items, Items) else ()
    if quickly is None or not isinstance(values, JsonItems):
        for at in range(len(values)):
            yield from read_one(partial(_item, values, at, entry_of))
        return
    for at, (line, text) in enumerate(values.texts()):
        if (acl := quickly(text)) is not None:
            yield line, acl
        else:
            yield from read_one(partial(_item, values, at, entry_of))


def _item(values: Sequence[Value], at: int, entry_of: Callable[[Value], Entry | None]) -> Entry | None:
    return entry_of(values[at])


def read_one(read: Callable[[], Entry | None]) -> Iterator[Entry]:
    """The entry that this gives, which may raise Refused and TextFault; None is for what is not to be read."""
    try:
        entry = read()
    except Refused as refused:
        yield from refused.entries()
    except TextFault as fault:
        yield fault.line, [Problem(str(fault))]
    else:
        if entry is not None:
            yield entry


@dataclass(slots=True)
class _Check:
    reading: Reading
    whole: tuple[type[msgspec.Struct], Place]
    """The shape of all, and where that stands."""
    faults: list[Fault] = field(default_factory=list)

    def fail(self, value: Value, place: Place, text: str) -> None:
        self.faults.append((line_of(value), Problem(text, place)))


_Reader: TypeAlias = Callable[[_Check, Value, Place], Any]


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    read: _Reader
    is_required: bool


@dataclass(frozen=True, slots=True)
class _Block:
    shape: type[msgspec.Struct]
    fields: Mapping[str, _Field]

    def __call__(self, check: _Check, value: Value, place: Place) -> msgspec.Struct | None:
        if not isinstance(value, Fields):
            check.fail(value, place, f"not {_A_BLOCK}; write its fields")
            return None
        found: dict[str, Any] = {_LINE: line_of(value)} if issubclass(self.shape, Shape) else {}
        missing = {name for name, known in self.fields.items() if known.is_required}
        for key, given in value.value:
            name = key.value
            known = self.fields.get(name)
            inside = (*place, name)
            if check.reading.passes_over(inside):
                if known is not None:
                    check.fail(key, inside, "Klamm reads this field; take it out of --pass-over")
            elif known is None:
                meant = self._refuse(check, key, inside)
                missing.discard(meant)
                continue
            else:
                found[known.attribute] = known.read(check, given, inside)
            missing.discard(name)
        for name in sorted(missing):
            check.fail(value, (*place, name), "the field is missing")
        # Those with faults are never given to anybody.
        return None if check.faults else self.shape(**found)

    def _refuse(self, check: _Check, key: Scalar, place: Place) -> str:
        """The known field that was probably meant."""
        name = place[-1]
        elsewhere = [each for each in _places(*check.whole).get(name, ()) if each != place[:-1]]
        meant = "" if elsewhere else nearest(name, self.fields) or ""
        if meant:
            way_out = f"; did you mean `{meant}`?"
        elif elsewhere:
            belongs = " or ".join(f"`{'.'.join(each)}`" if each else "the outermost level" for each in elsewhere[:2])
            way_out = f" here; it belongs to {belongs}"
        else:
            way_out = f"; remove it, or read the file without it: --pass-over {shown_place(place)}"
        check.fail(key, place, f"there is no such field{way_out}")
        return meant


_A_BLOCK = "a mapping"
_NO_LIST = "not a list; write one"


def shown_place(place: Place) -> str:
    return ".".join(place)[:MAX_SHOWN]


@cache
def _reader(shape: type[msgspec.Struct]) -> _Reader:
    return _of_type(inspect.type_info(shape))


def _of_type(kind: inspect.Type) -> _Reader:
    made = _MADE.get(type(kind))
    if made is None:
        raise TypeError(f"a shape has no such type: {kind}")
    return made(kind)


def _of_union(kind: inspect.UnionType) -> _Reader:
    some = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    if len(some) != 1:
        raise TypeError(f"a shape has no such union: {kind}")
    return _nullable(_of_type(some[0]))


def _block(kind: inspect.StructType) -> _Block:
    fields = {
        each.encode_name: _Field(each.name, _of_type(each.type), each.required)
        for each in kind.fields
        if each.name != _LINE
    }
    return _Block(kind.cls, fields)


def _nullable(read: _Reader) -> _Reader:
    return lambda check, value, place: None if is_null(value) else read(check, value, place)


def _items(read: _Reader, *, is_filled: bool) -> _Reader:
    def read_items(check: _Check, value: Value, place: Place) -> list[Any]:
        if not isinstance(value, Items):
            check.fail(value, place, _NO_LIST)
            return []
        if is_filled and not value.value:
            check.fail(value, place, "the list is empty; write what belongs there")
        return [read(check, each, place) for each in value.value]

    return read_items


def _named(read: _Reader) -> _Reader:
    def read_named(check: _Check, value: Value, place: Place) -> dict[str, Any]:
        if not isinstance(value, Fields):
            check.fail(value, place, f"not {_A_BLOCK}; write names and what they stand for")
            return {}
        return {key.value: read(check, given, (*place, key.value)) for key, given in value.value}

    return read_named


def _word(words: Sequence[str], expected: str = "one of its values") -> _Reader:
    def read_word(check: _Check, value: Value, place: Place) -> str:
        text = _text(check, value, place)
        if text not in words and is_text(value):
            meant = nearest(text, words)
            way_out = f"did you mean {meant}?" if meant else f"write one of {', '.join(words)}"
            check.fail(value, place, f"`{text[:MAX_SHOWN]}` is not {expected}; {way_out}")
        return text

    return read_word


def _of_metadata(kind: inspect.Metadata) -> _Reader:
    extra = kind.extra or {}
    if "raw" in extra:
        return lambda _, value, __: value
    if "words" in extra:
        return _word([each.name for each in extra["words"] if each.name not in VAGUE], "a value that Kafka knows")
    return _each if "each" in extra else _of_type(kind.type)


def _each(check: _Check, value: Value, place: Place) -> list[Any]:
    if not isinstance(value, Items):
        check.fail(value, place, _NO_LIST)
    return []


def _text(check: _Check, value: Value, place: Place) -> str:
    if isinstance(value, Scalar) and is_text(value):
        return str(value.value)
    check.fail(value, place, "the value is not text; write it in quotes")
    return ""


def _truth(check: _Check, value: Value, place: Place) -> bool:
    found = truth_of(value)
    if found is None:
        check.fail(value, place, "neither true nor false; write one of them, without quotes")
    return bool(found)


def _whole_number(check: _Check, value: Value, place: Place) -> int:
    found = whole_number_of(value)
    if found is None:
        check.fail(value, place, "not a whole number; write one, without quotes")
    return found or 0


_MADE: Mapping[type[inspect.Type], Callable[[Any], _Reader]] = {
    inspect.StructType: _block,
    inspect.Metadata: _of_metadata,
    inspect.UnionType: _of_union,
    inspect.ListType: lambda kind: _items(_of_type(kind.item_type), is_filled=bool(kind.min_length)),
    inspect.DictType: lambda kind: _named(_of_type(kind.value_type)),
    inspect.LiteralType: lambda kind: _word([str(each) for each in kind.values]),
    inspect.StrType: lambda _: _text,
    inspect.BoolType: lambda _: _truth,
    inspect.IntType: lambda _: _whole_number,
    inspect.AnyType: lambda _: lambda *__: None,
}


@lru_cache(maxsize=64)
def _places(shape: type[msgspec.Struct], place: Place) -> Mapping[str, Sequence[Place]]:
    """In which blocks each name is known."""
    places: dict[str, list[Place]] = {}
    for name, where in _names(inspect.type_info(shape), place):
        if where not in places.setdefault(name, []):
            places[name].append(where)
    return places


def _names(kind: inspect.Type, place: Place) -> Iterator[tuple[str, Place]]:
    if isinstance(kind, inspect.StructType):
        for each in kind.fields:
            if each.name != _LINE:
                yield each.encode_name, place
                yield from _names(each.type, (*place, each.encode_name))
    elif isinstance(kind, inspect.UnionType):
        for each_type in kind.types:
            yield from _names(each_type, place)
    elif isinstance(kind, inspect.ListType):
        yield from _names(kind.item_type, place)
    elif isinstance(kind, inspect.Metadata):
        yield from _names(kind.type, place)
    elif isinstance(kind, inspect.DictType):
        yield from _names(kind.value_type, (*place, "*"))
