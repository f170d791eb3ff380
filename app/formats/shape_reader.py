"""A value is read by its shape (`formats.shapes`); what the shape doesn't say is refused, each mistake once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from app.core.kafka.bindings import NewAcl
from app.core.spelling import nearest
from app.formats.acl_entries import MAX_SHOWN, Entry, FieldPlace, Problem
from app.formats.json_walk import JsonItems
from app.formats.lines import TextFault
from app.formats.quoting import shell_line
from app.formats.reading import Reading
from app.formats.shape_faults import Refused, ShapeCheck, shown_place
from app.formats.shapes import Shape, of_words
from app.formats.yaml_documents import (
    Fields,
    Items,
    Scalar,
    Value,
    is_null,
    is_text,
    line_of,
    runs_on,
    truth_of,
    whole_number_of,
)

_S = TypeVar("_S", bound=msgspec.Struct)
_LINE = "line"


def read_shape(
    shape: type[_S], value: Value, reading: Reading, place: FieldPlace = (), within: type[msgspec.Struct] | None = None
) -> _S:
    """The value as this struct. Raises Refused.

    `place` is where it stands in the whole resource, and `within` the shape of that one, if this is but a part of it.
    """
    check = ShapeCheck(reading, place, _places(shape)) if within is None else ShapeCheck(reading, (), _places(within))
    found = _reader(shape)(check, value, place)
    if check.faults:
        raise check.refused()
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


_Reader: TypeAlias = Callable[[ShapeCheck, Value, FieldPlace], Any]


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    read: _Reader
    is_required: bool
    takes_null: bool = False


@dataclass(frozen=True, slots=True)
class _Block:
    shape: type[msgspec.Struct]
    fields: Mapping[str, _Field]
    others: _Field | None
    """How to read what `fields` doesn't name; None if that is refused."""

    def __call__(self, check: ShapeCheck, value: Value, place: FieldPlace) -> msgspec.Struct | None:
        if not isinstance(value, Fields):
            check.fail(value, place, "not a mapping; write its fields")
            return None
        found: dict[str, Any] = {_LINE: line_of(value)} if issubclass(self.shape, Shape) else {}
        missing = {name for name, field in self.fields.items() if field.is_required}
        for key, given in value.value:
            name = key.value
            field = self.fields.get(name)
            inside = (*place, name)
            if check.reading.passes_over(inside):
                if field is not None:
                    check.fail(key, inside, "Klamm reads this field; take it out of --pass-over")
            elif field is None and self.others is not None:
                found.setdefault(self.others.attribute, {})[name] = self.others.read(check, given, inside)
            elif field is None:
                name = self._refuse(check, key, inside)
            elif field.is_required and not field.takes_null and is_null(given):
                check.miss(given, inside)
            else:
                found[field.attribute] = field.read(check, given, inside)
            missing.discard(name)
        for name in sorted(missing):
            check.miss(value, (*place, name))
        # Those with faults are never given to anybody.
        return None if check.faults else self.shape(**found)

    def _refuse(self, check: ShapeCheck, key: Scalar, place: FieldPlace) -> str:
        """The known field that was probably meant."""
        if check.misplace(key, place):
            return ""
        meant = nearest(place[-1], self.fields) or ""
        way_out = f"did you mean `{meant}`?" if meant else f"remove it{_or_pass_over(place)}"
        check.fail(key, place, f"there is no such field; {way_out}")
        return meant


def _or_pass_over(place: FieldPlace) -> str:
    # The names are the file's: what is shown to be copied must not do anything else in a shell.
    flag = shell_line(["--pass-over", ".".join(place)]) if len(shown_place(place)) < MAX_SHOWN else None
    return "" if flag is None else f", or read the file without it: {flag}"


_NO_LIST = "not a list; write one"
_RUNS_ON = "the text goes on in the next line; write it in quotes, or correct the indentation of that line"


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
    read = _of_type(some[0])
    return lambda check, value, place: None if is_null(value) else read(check, value, place)


def _of_metadata(kind: inspect.Metadata) -> _Reader:
    made = _MADE_AS.get((kind.extra or {}).get("as", ""))
    return _of_type(kind.type) if made is None else made(kind)


def _block(kind: inspect.StructType) -> _Block:
    fields = {each.encode_name: each for each in kind.fields if each.name != _LINE}
    others = None
    for name in [name for name, each in fields.items() if _is_of_others(each)]:
        field = fields.pop(name)
        mapping = field.type.type  # type: ignore[attr-defined]  # `Others` is metadata of a mapping
        others = _Field(field.name, _of_type(mapping.value_type), is_required=False)
    known = {
        name: _Field(each.name, _of_type(each.type), each.required, _takes_null(each.type))
        for name, each in fields.items()
    }
    return _Block(kind.cls, known, others)


def _takes_null(kind: inspect.Type) -> bool:
    """Whether null is a value of its own; otherwise it is no value."""
    is_any = isinstance(kind, inspect.Metadata) and isinstance(kind.type, inspect.AnyType)
    return is_any or isinstance(kind, inspect.UnionType | inspect.AnyType)


def _is_of_others(field: inspect.Field) -> bool:
    return isinstance(field.type, inspect.Metadata) and (field.type.extra or {}).get("as") == "others"


def _blocks(read: _Reader) -> _Reader:
    def read_blocks(check: ShapeCheck, value: Value, place: FieldPlace) -> list[Any]:
        if not isinstance(value, Items):
            return [read(check, value, place)]
        if not value.value:
            check.fail(value, place, "the list is empty; write what belongs there")
        return [read(check, each, place) for each in value.value]

    return read_blocks


def _each(check: ShapeCheck, value: Value, place: FieldPlace) -> list[Any]:
    if not isinstance(value, Items):
        check.fail(value, place, _NO_LIST)
    return []


def _items(kind: inspect.ListType) -> _Reader:
    read = _of_type(kind.item_type)

    def read_items(check: ShapeCheck, value: Value, place: FieldPlace) -> list[Any]:
        if not isinstance(value, Items):
            check.fail(value, place, _NO_LIST)
            return []
        if kind.min_length and not value.value:
            check.fail(value, place, "the list is empty; write what belongs there")
        return [read(check, each, place) for each in value.value]

    return read_items


def _named(kind: inspect.DictType) -> _Reader:
    read = _of_type(kind.value_type)

    def read_named(check: ShapeCheck, value: Value, place: FieldPlace) -> dict[str, Any]:
        if not isinstance(value, Fields):
            check.fail(value, place, "not a mapping; write names and what they stand for")
            return {}
        return {key.value: read(check, given, (*place, key.value)) for key, given in value.value}

    return read_named


def _made_of_text(make: Callable[[str], str]) -> _Reader:
    def read_made(check: ShapeCheck, value: Value, place: FieldPlace) -> str:
        if not _is_text(check, value, place):
            return ""
        try:
            return make(value.value)
        except ValueError as fault:
            check.fail(value, place, str(fault))
            return ""

    return read_made


def _text(check: ShapeCheck, value: Value, place: FieldPlace) -> str:
    return str(value.value) if _is_text(check, value, place) else ""


def _prose(check: ShapeCheck, value: Value, place: FieldPlace) -> str:
    return str(value.value) if _is_text(check, value, place, may_run_on=True) else ""


def _is_text(check: ShapeCheck, value: Value, place: FieldPlace, *, may_run_on: bool = False) -> bool:
    if is_text(value):
        if may_run_on or not runs_on(value):
            return True
        check.fail(value, place, _RUNS_ON)
        return False
    way_out = "write it in quotes" if isinstance(value, Scalar) else "write one"
    check.fail(value, place, f"the value is not text; {way_out}")
    return False


def _single(check: ShapeCheck, value: Value, place: FieldPlace) -> None:
    if not isinstance(value, Scalar):
        check.fail(value, place, "not a single value; write one, without fields and items")
    elif runs_on(value):
        check.fail(value, place, _RUNS_ON)


def _truth(check: ShapeCheck, value: Value, place: FieldPlace) -> bool:
    found = truth_of(value)
    if found is None:
        check.fail(value, place, "neither true nor false; write one of them, without quotes")
    return bool(found)


def _whole_number(check: ShapeCheck, value: Value, place: FieldPlace) -> int:
    found = whole_number_of(value)
    if found is None:
        check.fail(value, place, "not a whole number; write one, without quotes")
    return found or 0


_MADE_AS: Mapping[str, Callable[[Any], _Reader]] = {
    "raw": lambda _: lambda _, value, __: value,
    "single": lambda _: _single,
    "prose": lambda _: _prose,
    "each": lambda _: _each,
    "blocks": lambda kind: _blocks(_of_type(kind.type.item_type)),
    "refused": lambda kind: lambda check, value, place: check.fail(value, place, kind.extra["text"]),
    "text": lambda kind: _made_of_text(kind.extra["read"]),
}
_MADE: Mapping[type[inspect.Type], Callable[[Any], _Reader]] = {
    inspect.StructType: _block,
    inspect.Metadata: _of_metadata,
    inspect.UnionType: _of_union,
    inspect.ListType: _items,
    inspect.DictType: _named,
    inspect.LiteralType: lambda kind: _made_of_text(of_words({each: each for each in kind.values})),
    inspect.StrType: lambda _: _text,
    inspect.BoolType: lambda _: _truth,
    inspect.IntType: lambda _: _whole_number,
    inspect.AnyType: lambda _: lambda *__: None,
}


@cache
def _places(shape: type[msgspec.Struct]) -> Mapping[str, Sequence[FieldPlace]]:
    """In which blocks of the shape each name is known."""
    places: dict[str, list[FieldPlace]] = {}
    for name, block in _names(inspect.type_info(shape), ()):
        if block not in places.setdefault(name, []):
            places[name].append(block)
    return places


def _names(kind: inspect.Type, place: FieldPlace) -> Iterator[tuple[str, FieldPlace]]:
    if isinstance(kind, inspect.StructType):
        for each in kind.fields:
            if _is_of_others(each):
                yield from _names(each.type, place)
            elif each.name != _LINE:
                yield each.encode_name, place
                yield from _names(each.type, (*place, each.encode_name))
    elif isinstance(kind, inspect.UnionType):
        for each_type in kind.types:
            yield from _names(each_type, place)
    elif isinstance(kind, inspect.Metadata):
        yield from _names(kind.type, place)
    elif isinstance(kind, inspect.ListType):
        yield from _names(kind.item_type, place)
    elif isinstance(kind, inspect.DictType):
        yield from _names(kind.value_type, (*place, "*"))
