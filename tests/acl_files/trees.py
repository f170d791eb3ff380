"""Values of JSON and YAML as trees that keep the order of keys and equal keys, and how to write them, line by line.

The writers are the tests' own, so that they share nothing with the readers. A place is the way down to a key or to an
item of a list: the number of each in what it stands in.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

Tree: TypeAlias = "Map | list[Tree] | str | int | bool | None"
At: TypeAlias = tuple[int, ...]


class Map(tuple[tuple[str, Tree], ...]):
    """A mapping: each key with what it stands for."""

    __slots__ = ()


@dataclass
class Written:
    """A text, and the line of each key and item in it."""

    text: str = ""
    lines: dict[At, int] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)


def tree_of(value: object) -> Tree:
    if isinstance(value, dict):
        return Map((str(key), tree_of(each)) for key, each in value.items())
    if isinstance(value, list):
        return [tree_of(each) for each in value]
    assert value is None or isinstance(value, (str, int)), value
    return value


def json_tree(text: str) -> Tree:
    return tree_of(json.loads(text))


def yaml_trees(text: str) -> list[Tree]:
    return [tree_of(each) for each in yaml.safe_load_all(text) if each is not None]


def maps_in(tree: Tree, at: At = ()) -> Iterator[tuple[At, Map]]:
    """Each mapping with its place, from the outermost on."""
    if isinstance(tree, Map):
        yield at, tree
        for number, (_, value) in enumerate(tree):
            yield from maps_in(value, (*at, number))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from maps_in(value, (*at, number))


def at_place(tree: Tree, at: At) -> Tree:
    for number in at:
        assert isinstance(tree, Map | list)
        tree = tree[number][1] if isinstance(tree, Map) else tree[number]
    return tree


def rebuilt(tree: Tree, changes: Mapping[At, Callable[[Map], Map]], at: At = ()) -> Tree:
    """The tree with each mapping at one of these places changed, the inner ones first."""
    if isinstance(tree, Map):
        same = Map((key, rebuilt(value, changes, (*at, number))) for number, (key, value) in enumerate(tree))
        return changes[at](same) if at in changes else same
    if isinstance(tree, list):
        return [rebuilt(value, changes, (*at, number)) for number, value in enumerate(tree)]
    return tree


def leaves_in(tree: Tree, at: At = ()) -> Iterator[tuple[At, Tree]]:
    """Each value that is neither a mapping nor a list, with its place."""
    if isinstance(tree, Map | list):
        for number, (_, value) in enumerate(_pairs(tree)):
            yield from leaves_in(value, (*at, number))
    else:
        yield at, tree


def with_leaf(tree: Tree, at: At, new: Tree) -> Tree:
    """The tree with another value at this place."""
    if not at:
        return new
    first, *rest = at
    if isinstance(tree, Map):
        return Map((k, with_leaf(v, tuple(rest), new) if i == first else v) for i, (k, v) in enumerate(tree))
    assert isinstance(tree, list)
    return [with_leaf(each, tuple(rest), new) if i == first else each for i, each in enumerate(tree)]


def with_map(tree: Tree, at: At, new: Map) -> Tree:
    """The tree with another mapping at this place."""
    return rebuilt(tree, {at: lambda _: new})


def _pairs(tree: Map | list[Tree]) -> Sequence[tuple[str, Tree]]:
    """The items of a list have no key."""
    return tree if isinstance(tree, Map) else [("", each) for each in tree]


def shuffled(tree: Tree, draw: random.Random) -> Tree:
    """The same with the keys of each mapping in another order."""
    if isinstance(tree, Map):
        pairs = [(key, shuffled(value, draw)) for key, value in tree]
        draw.shuffle(pairs)
        return Map(pairs)
    return [shuffled(each, draw) for each in tree] if isinstance(tree, list) else tree


# JSON


def compact_json(tree: Tree, colon: str = ": ", comma: str = ", ") -> str:
    if isinstance(tree, Map):
        return f"{{{comma.join(f'{json.dumps(key)}{colon}{compact_json(each, colon, comma)}' for key, each in tree)}}}"
    if isinstance(tree, list):
        return f"[{comma.join(compact_json(each, colon, comma) for each in tree)}]"
    return json.dumps(tree, ensure_ascii=False)


def line_json(tree: Tree) -> Written:
    found = Written(f"{compact_json(tree)}\n")
    _note_all(tree, (), 1, found)
    return found


def pretty_json(tree: Tree, step: int = 2) -> Written:
    """A line for each key, each item and each closing bracket."""
    found = Written()
    _pretty(tree, (), 0, step, found, "")
    found.text = "\n".join(found.ends) + "\n"
    return found


def _pretty(tree: Tree, at: At, depth: int, step: int, found: Written, lead: str) -> None:
    if not isinstance(tree, Map | list) or not tree:
        found.ends.append(lead + compact_json(tree))
        return
    opening, closing = "{}" if isinstance(tree, Map) else "[]"
    found.ends.append(lead + opening)
    inner = " " * step * (depth + 1)
    for number, (key, value) in enumerate(_pairs(tree)):
        found.lines[*at, number] = len(found.ends) + 1
        begins = f"{inner}{json.dumps(key)}: " if isinstance(tree, Map) else inner
        _pretty(value, (*at, number), depth + 1, step, found, begins)
        found.ends[-1] += "," if number < len(tree) - 1 else ""
    found.ends.append(" " * step * depth + closing)


# YAML


@dataclass(frozen=True)
class YamlStyle:
    step: int = 2
    dash_is_indented: bool = True
    key_quote: str = ""
    text_quote: str = '"'
    flow_from: int = 99
    """The depth from which on mappings and lists stand on one line."""


PLAIN = YamlStyle()

_SAFE = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?::[A-Za-z0-9_.-]+)*\Z")
_WORDS = re.compile(r"(?:y|n|yes|no|on|off|true|false|null)\Z", re.IGNORECASE)


def yaml_style(draw: random.Random) -> YamlStyle:
    return YamlStyle(
        draw.choice((1, 2, 4)),
        draw.random() < 0.5,
        draw.choice(("", "", "'", '"')),
        draw.choice(("", "'", '"')),
        draw.choice((99, 99, 99, 6, 5, 4, 3, 2, 1)),
    )


def block_yaml(tree: Tree, style: YamlStyle = PLAIN) -> Written:
    found = Written()
    _block(tree, (), 0, "", style, found)
    found.text = "\n".join(found.ends) + "\n"
    return found


def flow_yaml(tree: Tree, style: YamlStyle = PLAIN) -> str:
    if isinstance(tree, Map):
        return f"{{{', '.join(f'{_key(key, style)}: {flow_yaml(each, style)}' for key, each in tree)}}}"
    if isinstance(tree, list):
        return f"[{', '.join(flow_yaml(each, style) for each in tree)}]"
    return _scalar(tree, style.text_quote)


def _key(key: str, style: YamlStyle) -> str:
    return _scalar(key, style.key_quote)


def _scalar(value: Tree, quote: str) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if not quote and _SAFE.match(value) and not _WORDS.match(value):
        return value
    if quote == "'" and value.isprintable():
        doubled = value.replace("'", "''")
        return f"'{doubled}'"
    return json.dumps(value, ensure_ascii=False)


def _block(tree: Tree, at: At, column: int, lead: str, style: YamlStyle, found: Written) -> None:
    """`lead` is what stands before it on its line."""
    if not isinstance(tree, Map | list) or not tree or len(at) >= style.flow_from:
        _note_all(tree, at, len(found.ends) + 1, found)
        found.ends.append(f"{lead} {flow_yaml(tree, style)}" if lead else flow_yaml(tree, style))
        return
    # After the dash of a list an item begins on the same line; after a key, on the next.
    starts_here = not lead or lead.endswith("-")
    begins = f"{lead} " if lead.endswith("-") else ""
    if not starts_here:
        found.ends.append(lead)
    blanks = " " * column
    for number, (key, value) in enumerate(_pairs(tree)):
        found.lines[*at, number] = len(found.ends) + 1
        start = begins if number == 0 and begins else blanks
        if isinstance(tree, Map):
            inner = column + (style.step if isinstance(value, Map) or style.dash_is_indented else 0)
            _block(value, (*at, number), inner, f"{start}{_key(key, style)}:", style, found)
        else:
            _block(value, (*at, number), column + 2, f"{start}-", style, found)


def _note_all(tree: Tree, at: At, line: int, found: Written) -> None:
    if isinstance(tree, Map | list):
        for number, (_, value) in enumerate(_pairs(tree)):
            found.lines[*at, number] = line
            _note_all(value, (*at, number), line, found)
