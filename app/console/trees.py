"""What a principal may do, as a tree of names: wider patterns above what they cover, and names that begin alike."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from app.console.visits import Json
from app.core.kafka.codes import WILDCARD

_MAX_DEPTH = 8
"""Deeper nodes are not indented further."""
_MAX_PARTS = 6
_SEPARATOR = re.compile(r"[._/:-]")


@dataclass(slots=True)
class Node:
    name: str
    covers: bool
    """Whether all names with this prefix are below it: it is a PREFIXED pattern, `*`, or what names have in common."""
    rows: list[Json] = field(default_factory=list)
    """What is allowed and denied on it by itself; empty if names only share this prefix."""
    below: list["Node"] = field(default_factory=list)
    depth: int = 0


def trees(rows: Iterable[Json]) -> Mapping[str, Sequence[Node]]:
    """By resource type: its tree, line by line."""
    by_type: dict[str, list[Json]] = {}
    for row in rows:
        by_type.setdefault(row["resource_type"], []).append(row)
    return {each: _lines(_grown(by_type[each])) for each in sorted(by_type)}


def _grown(rows: Sequence[Json]) -> Node:
    nodes: dict[tuple[str, bool], Node] = {}
    root = Node("", covers=True)
    for row in rows:
        name = row["resource_name"]
        if row["pattern_type"] == "LITERAL" and name == WILDCARD:
            root.rows.append(row)
            continue
        covers = row["pattern_type"] == "PREFIXED"
        nodes.setdefault((name, not covers), Node(name, covers)).rows.append(row)
        for begin in _beginnings(name):
            nodes.setdefault((begin, False), Node(begin, covers=True))
    above = [root]
    # A prefix comes before the names that begin with it, and before the name that equals it.
    for key in sorted(nodes):
        node = nodes[key]
        while not node.name.startswith(above[-1].name):
            above.pop()
        above[-1].below.append(node)
        if node.covers:
            above.append(node)
    return root


def _beginnings(name: str) -> Iterable[str]:
    ends = (separator.end() for separator in islice(_SEPARATOR.finditer(name), _MAX_PARTS))
    return (name[:end] for end in ends if end < len(name))


def _lines(root: Node) -> Sequence[Node]:
    lines: list[Node] = []
    rest = [(root, 0)]
    while rest:
        node, depth = rest.pop()
        # A prefix of only one name says nothing.
        is_shown = bool(node.rows) or (node is not root and len(node.below) > 1)
        if is_shown:
            node.depth = min(depth, _MAX_DEPTH)
            lines.append(node)
        rest += [(each, depth + is_shown) for each in reversed(node.below)]
    return lines
