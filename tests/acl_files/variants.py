"""Other ways to write the same file: none of them changes what it means."""

import gzip
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence

import yaml

from tests.acl_files.trees import Map, Tree, block_yaml, compact_json, pretty_json, shuffled, yaml_style

BYTE_ORDER_MARK = "\ufeff"
_SIMPLE_WORD = re.compile(r'(?<=")([A-Za-z])(?=[A-Za-z_]*")')


def of_trees(trees: Sequence[Tree], draw: random.Random, *, is_yaml: bool, is_json: bool) -> tuple[str, bytes]:
    """What was changed, and the file."""
    some = [shuffled(each, draw) for each in trees]
    names = [each for each in _YAML if is_yaml] + [each for each in _JSON if is_json and len(trees) == 1]
    name = draw.choice(names)
    text = _YAML[name](some, draw) if name in _YAML else _JSON[name](some[0], draw)
    ends, raw = encoded(text, draw)
    return f"{name}, {ends}", raw


def encoded(text: str, draw: random.Random) -> tuple[str, bytes]:
    """With other line ends, a byte order mark, or gzipped."""
    name = draw.choice(list(_ENCODED))
    return name, _ENCODED[name](text)


_ENCODED: Mapping[str, Callable[[str], bytes]] = {
    "as it is": str.encode,
    "CRLF": lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n").encode(),
    "byte order mark": lambda text: (BYTE_ORDER_MARK + text).encode(),
    "gzip": lambda text: gzip.compress(text.encode(), mtime=0),
    "no line end at the end": lambda text: text.rstrip("\r\n").encode(),
    "blank lines at the end": lambda text: f"{text}\n\n".encode(),
}


def lines_json(trees: Sequence[Tree], draw: random.Random) -> tuple[str, bytes]:
    colon, comma = draw.choice(((": ", ", "), (":", ","), (" : ", " , ")))
    lines = [_escaped(compact_json(shuffled(each, draw), colon, comma), draw) for each in trees]
    ends, raw = encoded("".join(f"{line}\n{draw.choice(('', '', chr(10)))}" for line in lines), draw)
    return f"lines, {ends}", raw


def _escaped(text: str, draw: random.Random) -> str:
    """Some letters as JSON's escapes."""
    return _SIMPLE_WORD.sub(lambda found: f"\\u{ord(found[1]):04x}" if draw.random() < 0.1 else found[1], text)


_JSON: Mapping[str, Callable[[Tree, random.Random], str]] = {
    "JSON on one line": lambda tree, draw: (
        compact_json(tree, *draw.choice(((": ", ", "), (":", ","), (" :  ", " ,  ")))) + "\n"
    ),
    "JSON on many lines": lambda tree, draw: pretty_json(tree, draw.choice((0, 1, 2, 4, 7))).text,
    "JSON indented with tabs": lambda tree, _: "\n\n" + pretty_json(tree, 1).text.replace("\n ", "\n\t"),
    "JSON with escapes": lambda tree, draw: _escaped(pretty_json(tree).text, draw),
}


def _documents(texts: Sequence[str], draw: random.Random) -> str:
    begins = draw.choice(("", "---\n", "--- # the first\n", "# of the team\n---\n"))
    ends = draw.choice(("", "...\n", "---\n"))
    return begins + draw.choice(("---\n", "\n---\n", "...\n---\n")).join(texts) + ends


def _in_style(trees: Sequence[Tree], draw: random.Random) -> str:
    style = yaml_style(draw)
    return _documents([block_yaml(each, style).text for each in trees], draw)


def _with_comments(trees: Sequence[Tree], draw: random.Random) -> str:
    lines = []
    for line in _in_style(trees, draw).splitlines():
        blanks = " " * draw.randrange(8)
        if draw.random() < 0.3:
            lines.append(draw.choice(("", "# a comment: of {many} - signs", f"{blanks}# host: x", f"{blanks}#", "   ")))
        lines.append(f"{line} # {draw.choice(('see', 'host: x', 'type: deny'))}" if draw.random() < 0.3 else line)
    return "\n".join(lines) + "\n"


def _dumped(trees: Sequence[Tree], draw: random.Random) -> str:
    return yaml.safe_dump_all(
        [_plain(each, {}) for each in trees],
        sort_keys=draw.random() < 0.5,
        default_flow_style=draw.choice((False, False, None)),
        width=draw.choice((80, 1000)),
        indent=draw.choice((2, 3, 6)),
        default_style=draw.choice((None, None, "'", '"')) if _has_only_texts(list(trees)) else None,
        explicit_start=draw.random() < 0.5,
        explicit_end=draw.random() < 0.2,
    )


def _has_only_texts(tree: Tree) -> bool:
    if isinstance(tree, Map):
        return all(_has_only_texts(value) for _, value in tree)
    if isinstance(tree, list):
        return all(_has_only_texts(each) for each in tree)
    return isinstance(tree, str)


def _with_aliases(trees: Sequence[Tree], _: random.Random) -> str:
    return yaml.safe_dump_all([_plain(each, {}, is_shared=True) for each in trees], sort_keys=False, width=200)


def _plain(tree: Tree, seen: dict[str, object], *, is_shared: bool = False) -> object:
    """As dicts and lists. Equal ones are the same if they are `is_shared`: PyYAML then writes aliases."""
    if isinstance(tree, Map):
        made: object = {key: _plain(value, seen, is_shared=is_shared) for key, value in tree}
    elif isinstance(tree, list):
        made = [_plain(each, seen, is_shared=is_shared) for each in tree]
    else:
        return tree
    return seen.setdefault(json.dumps(made), made) if is_shared and made else made


_YAML: Mapping[str, Callable[[Sequence[Tree], random.Random], str]] = {
    "YAML in a style": _in_style,
    "YAML with comments": _with_comments,
    "YAML of a library": _dumped,
    "YAML with aliases": _with_aliases,
}


def of_csv(text: str, draw: random.Random) -> tuple[str, bytes]:
    header, *rows = text.splitlines()
    names = [draw.choice((name, name.lower(), name.upper(), _snake(name))) for name in header.split(",")]
    lines = [",".join(draw.choice((name, f'"{name}"')) for name in names)]
    quote = '"' if draw.random() < 0.5 else ""
    order = list(range(len(names)))
    draw.shuffle(order)
    table = [lines[0].split(","), *([f"{quote}{cell}{quote}" for cell in row.split(",")] for row in rows)]
    shown = [",".join(row[each] for each in order) for row in table]
    ends, raw = encoded("".join(f"{row}\n{draw.choice(('', '', chr(10)))}" for row in shown), draw)
    return f"columns {order}, {ends}", raw


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def of_kafka_acls(text: str, draw: random.Random) -> tuple[str, bytes]:
    lines = text.splitlines()
    name = draw.choice(("as it is", "blanks for tabs", "after warnings", "more blank lines"))
    if name == "blanks for tabs":
        lines = [line.replace("\t", draw.choice(("        ", "    ", "\t"))) for line in lines]
    elif name == "after warnings":
        lines[:0] = [
            "[2024-10-25 03:33:01,001] WARN The configuration was supplied but isn't known. (org.apache.kafka.X)"
        ]
    elif name == "more blank lines":
        lines = [each for line in lines for each in ([line, ""] if not line else [line])]
    ends, raw = encoded("".join(f"{line}\n" for line in lines), draw)
    return f"{name}, {ends}", raw
