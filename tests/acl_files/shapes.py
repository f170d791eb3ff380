"""Mistakes at every level of a format, drawn from its shapes: each is one, at a known line, in a known field."""

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from unittest.mock import patch

from msgspec import inspect

from app.core.kafka.bindings import NewAcl
from app.formats import shape_reader
from app.formats.reading import FileSet
from app.formats.registry import AclFormat, read_entries
from app.formats.shape_faults import ShapeCheck
from app.formats.source import Source
from app.formats.yaml_documents import Fields, Value, line_of
from tests.acl_files.trees import (
    At,
    Map,
    Tree,
    Written,
    block_yaml,
    leaves_in,
    line_json,
    maps_in,
    pretty_json,
    with_leaf,
    with_map,
)

UNKNOWN = "xQzv"
_LINE = "line"

Emit = Callable[[Tree], Written]
EMITS: Mapping[str, Emit] = {"json": pretty_json, "yaml": block_yaml, "line": line_json}


class Level(NamedTuple):
    """A block of a file: what it may have, and where it stands."""

    shape: type
    at: At


@dataclass(frozen=True)
class Mistake:
    """`says` must stand in what is told of it."""

    kind: str
    tree: Tree
    at: At
    says: str
    is_of_the_block: bool = False
    """The field is missing: the line is that of the block at `at`."""

    def lines(self, written: Written) -> set[int]:
        """Where it may be told: in YAML, a value may begin in the line after its key."""
        first = start_line(self.at, written)
        if self.is_of_the_block:
            return {first}
        if self.kind == "misspelt word":
            # A kind is that of its block.
            return {written.lines[self.at], start_line(self.at[:-1], written)}
        return {written.lines[self.at]} | ({first} if self.kind.endswith("kind") else set())


def start_line(at: At, written: Written) -> int:
    """Where a block begins: in YAML, where its first key stands."""
    first = (*at, 0)
    if not written.text.startswith(("{", "[")) and first in written.lines:
        return written.lines[first]
    return written.lines[at] if at else 1


_Calls = dict[tuple[int, tuple[str, ...]], type]


def levels_of(acl_format: AclFormat, tree: Tree, emit: Emit) -> list[Level]:
    """Each block of the file that its reader reads by a shape."""
    found = []
    calls = _calls(acl_format, emit(tree))
    for at, block in maps_in(tree):
        level = _called(calls, tree, at, block, emit)
        if level is None:
            # A reader may have a fast way for what has no fault.
            faulty = Map([*block, (UNKNOWN, "x")])
            wrong = with_map(tree, at, faulty)
            level = _called(_calls(acl_format, emit(wrong)), wrong, at, faulty, emit)
        if level is not None:
            found.append(Level(level, at))
    return found


def _calls(acl_format: AclFormat, written: Written) -> _Calls:
    """The shapes by which blocks are read, by their first line and their names."""
    calls: _Calls = {}
    read_block = shape_reader._Block.__call__

    def noted(self: shape_reader._Block, check: ShapeCheck, value: Value, place: tuple[str, ...]) -> object:
        if isinstance(value, Fields):
            calls[line_of(value), tuple(key.value for key, _ in value.value)] = self.shape
        return read_block(self, check, value, place)

    with patch.object(shape_reader._Block, "__call__", noted):
        problems_in(acl_format, written.text)
    return calls


def _called(calls: _Calls, tree: Tree, at: At, block: Map, emit: Emit) -> type | None:
    written = emit(tree)
    names = [name for name, _ in block]
    whole = calls.get((start_line(at, written), tuple(names)))
    if whole is not None:
        return whole
    # One that is read field by field.
    lines = {start_line(at, written)} | {written.lines[*at, number] for number in range(len(block))}
    return next(
        (shape for (line, some), shape in calls.items() if line in lines and some and {*some} <= {*names}), None
    )


def problems_in(acl_format: AclFormat, text: str) -> list[tuple[int, str]]:
    read = read_entries(Source(io.BytesIO(text.encode())), FileSet().reading(""), acl_format)
    return [(line, problem) for line, each in read if not isinstance(each, NewAcl) for problem in each]


def fields_of(shape: type) -> list[inspect.Field]:
    """Those with a name of their own."""
    described = inspect.type_info(shape)
    assert isinstance(described, inspect.StructType)
    return [each for each in described.fields if each.name != _LINE and _kind_of(each.type) != "others"]


def takes_any_name(shape: type) -> bool:
    described = inspect.type_info(shape)
    assert isinstance(described, inspect.StructType)
    return any(_kind_of(each.type) == "others" for each in described.fields)


def _kind_of(kind: inspect.Type) -> str:
    """What `shapes` has written beside the type."""
    extra = (kind.extra or {}) if isinstance(kind, inspect.Metadata) else {}
    return str(extra.get("as", next(iter(extra), "")))


def shapes_in(shape: type) -> set[type]:
    """This one, and all those of its blocks."""
    return {shape}.union(*(_in_type(each.type) for each in fields_of(shape)))


def _in_type(kind: inspect.Type) -> set[type]:
    if isinstance(kind, inspect.StructType):
        return shapes_in(kind.cls)
    if isinstance(kind, inspect.UnionType):
        return set().union(*map(_in_type, kind.types))
    if isinstance(kind, inspect.ListType):
        return _in_type(kind.item_type)
    if isinstance(kind, inspect.DictType):
        return _in_type(kind.value_type)
    return _in_type(kind.type) if isinstance(kind, inspect.Metadata) else set()


def passed_over(shape: type) -> list[str]:
    """The fields that are not looked at."""
    return [each.encode_name for each in fields_of(shape) if isinstance(each.type, inspect.AnyType)]


def mistakes(tree: Tree, levels: Sequence[Level]) -> Iterator[Mistake]:
    """Each has one mistake."""
    named = {name: value for _, each in maps_in(tree) for name, value in each}
    everywhere = {
        each.encode_name: named.get(each.encode_name, "x") for level in levels for each in fields_of(level.shape)
    }
    for level in levels:
        block = next(each for at, each in maps_in(tree) if at == level.at)
        known = {each.encode_name: each for each in fields_of(level.shape)}
        if not takes_any_name(level.shape):
            yield _added("unknown", tree, level, block, UNKNOWN, "x")
            for name in everywhere.keys() - known.keys():
                yield _added("misplaced", tree, level, block, name, everywhere[name])
            for name in known:
                yield from (_misspelt(tree, level, block, name, each) for each in misspelt(name) if each not in known)
        for number, (name, value) in enumerate(block):
            yield _added("doubled", tree, level, block, name, value)
            if name in known:
                yield from _of_field(tree, level, block, number, known[name])


def mistakes_of_words(tree: Tree, words: Collection[str]) -> Iterator[Mistake]:
    """One of these words is misspelt, wherever it stands."""
    for at, value in leaves_in(tree):
        if isinstance(value, str) and value in words:
            for wrong in misspelt(value):
                if wrong not in words:
                    yield Mistake("misspelt word", with_leaf(tree, at, wrong), at, wrong)


def _of_field(tree: Tree, level: Level, block: Map, number: int, known: inspect.Field) -> Iterator[Mistake]:
    if known.required:
        rest = Map(pair for pair in block if pair[0] != known.encode_name)
        yield Mistake("missing", with_map(tree, level.at, rest), level.at, known.encode_name, is_of_the_block=True)
    for name in _VALUES.keys() - _right_kinds(known.type):
        changed = Map((key, _VALUES[name] if i == number else old) for i, (key, old) in enumerate(block))
        at = (*level.at, number)
        yield Mistake(f"{name} for another kind", with_map(tree, level.at, changed), at, known.encode_name)


def _added(kind: str, tree: Tree, level: Level, block: Map, name: str, value: Tree) -> Mistake:
    grown = Map([*block, (name, value)])
    return Mistake(kind, with_map(tree, level.at, grown), (*level.at, len(block)), name)


def _misspelt(tree: Tree, level: Level, block: Map, name: str, wrong: str) -> Mistake:
    if name not in [each for each, _ in block]:
        return _added("misspelt", tree, level, block, wrong, "x")
    number = [each for each, _ in block].index(name)
    renamed = Map((wrong if key == name else key, value) for key, value in block)
    return Mistake("misspelt", with_map(tree, level.at, renamed), (*level.at, number), wrong)


def misspelt(name: str) -> list[str]:
    """One letter lost, doubled and another, case, and two letters if it is no short one."""
    middle = len(name) // 2
    found = [
        name[:middle] + name[middle + 1 :],
        name[:middle] + name[middle] + name[middle:],
        name + "s",
        name[0].swapcase() + name[1:],
    ]
    if len(name) > 2:
        found.append(name[: middle - 1] + "q" + name[middle:])
    if len(name) > 5:
        found += [
            name[:-2],
            name[0] + name[2:-2] + name[-1],
            f"{name[: middle - 1]}qx{name[middle + 1 :]}",
            name.upper(),
        ]
    return [each for each in dict.fromkeys(found) if each and each != name]


_VALUES: Mapping[str, Tree] = {
    "text": "x y",
    "number": 7,
    "truth": True,
    "list": ["a b"],
    "mapping": Map([("a", "b")]),
    "null": None,
}
_RIGHT: Mapping[type, Sequence[str]] = {
    inspect.StrType: ("text",),
    inspect.LiteralType: ("text",),
    inspect.IntType: ("number",),
    inspect.BoolType: ("truth",),
    inspect.ListType: ("list",),
    inspect.DictType: ("mapping",),
    inspect.StructType: ("mapping",),
    inspect.NoneType: ("null",),
}


def _right_kinds(kind: inspect.Type) -> set[str]:
    if isinstance(kind, inspect.UnionType):
        return set().union(*map(_right_kinds, kind.types))
    if isinstance(kind, inspect.Metadata):
        if _kind_of(kind) == "single":
            return {"text", "number", "truth", "null"}
        more = {"mapping"} if _kind_of(kind) == "blocks" else set()
        return (set(_VALUES) if _kind_of(kind) in ("raw", "refused") else _right_kinds(kind.type)) | more
    return set(_VALUES) if isinstance(kind, inspect.AnyType) else set(_RIGHT.get(type(kind), ()))
