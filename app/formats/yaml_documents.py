"""The documents of a YAML file, one after another, as PyYAML's nodes, which know their lines; JSON makes the same.

Nothing is constructed of them. Bounds: the file's bytes, how deep a value nests, and how many values a document has,
those of its aliases counted as often as they are meant. Refused: a key that comes twice, merge keys, tags but YAML's
own, an anchor that comes twice, and an alias within what it stands for.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import IO, NamedTuple, cast

import yaml

from app.core.collection import collection_paused
from app.formats.lines import TextFault, whole_text

MAX_YAML_BYTES = 32 * 1024 * 1024
MAX_DOCUMENT_VALUES = 1_000_000
MAX_DEPTH = 64

Value = yaml.Node
Scalar = yaml.ScalarNode
Items = yaml.SequenceNode
Fields = yaml.MappingNode

_YAML = "tag:yaml.org,2002:"
_TEXT, _NULL, _TRUTH, _WHOLE, _REAL = (f"{_YAML}{name}" for name in ("str", "null", "bool", "int", "float"))
_TAGS: dict[type[Value], set[str]] = {
    # What YAML 1.1 takes a scalar for, by its looks if it stands without quotes.
    Scalar: {
        f"{_YAML}{name}" for name in ("str", "null", "bool", "int", "float", "timestamp", "value", "merge", "yaml")
    },
    Items: {f"{_YAML}seq"},
    Fields: {f"{_YAML}map"},
}
_DECIMAL = re.compile(r"[-+]?[0-9]{1,18}\Z")
_MERGE = "<<"
_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels; no file of ACLs is"
_LIBRARY_TOO_DEEP = "exceeded maximum nesting depth"
"""What libyaml says of thousands of levels, before anything is composed of them."""
_TRUE = ("true", "yes", "on")
_ANCHOR = re.compile(r"[&*][\w-]+")
_TEMPLATE = re.compile(r"\{[{%]")
_TEMPLATE_LINE = re.compile(r"\s*\{[{%]")
_LOOKS_LIKE_A_TEMPLATE = "this looks like a template that nothing has filled in; give what is made of it"


def read_documents(stream: IO[bytes]) -> Iterator[Value]:
    """Each document of the file. Raises TextFault where it can't be read on."""
    too_long = f"YAML of more than {MAX_YAML_BYTES} bytes; split it into several files"
    text = whole_text(stream, MAX_YAML_BYTES, too_long)
    documents = yaml.compose_all(text, Loader=_Composer)
    try:
        while (document := _next(documents)) is not None:
            yield document
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        line = 1 if mark is None else mark.line + 1
        raise TextFault(line, _problem(fault, text) + _template_hint(text, line)) from None
    except yaml.YAMLError as fault:
        raise TextFault(1, f"not YAML: {str(fault).splitlines()[0]}") from None


def _next(documents: Iterator[Value]) -> Value | None:
    with collection_paused():
        document = next(documents, None)
        if document is not None:
            _check(document, {})
    return document


def line_of(value: Value) -> int:
    return 1 if value.start_mark is None else value.start_mark.line + 1


def fields_of(mapping: Fields) -> dict[str, Value]:
    return {name.value: value for name, value in mapping.value}


def is_text(value: Value) -> bool:
    """Not a number, a truth value or a date, for which YAML takes a scalar that stands without quotes."""
    return value.tag == _TEXT


def runs_on(value: Value) -> bool:
    """Whether it is a text without quotes that goes on in the next line, where an item or a block may have begun."""
    is_plain = isinstance(value, Scalar) and not value.style and value.end_mark is not None
    return is_plain and value.end_mark.line > value.start_mark.line


def is_null(value: Value) -> bool:
    return value.tag == _NULL


def truth_of(value: Value) -> bool | None:
    """None if it is no truth value."""
    return value.value.lower() in _TRUE if value.tag == _TRUTH else None


def whole_number_of(value: Value) -> int | None:
    """None if it is none in decimal digits."""
    return int(value.value) if value.tag == _WHOLE and _DECIMAL.match(value.value) is not None else None


class _Line(NamedTuple):
    line: int


@lru_cache(maxsize=8)
def _mark(line: int) -> "yaml.Mark":
    # All that is asked of a mark; PyYAML's own are slow to make.
    return cast("yaml.Mark", _Line(line - 1))


def scalar(plain: object, line: int) -> Value:
    """What stands in JSON as this text, number, truth value or null."""
    mark = _mark(line)
    if isinstance(plain, str):
        return Scalar(_TEXT, plain, mark)
    if plain is None or isinstance(plain, bool):
        return Scalar(_NULL if plain is None else _TRUTH, str(plain).lower(), mark)
    return Scalar(_WHOLE if isinstance(plain, int) else _REAL, str(plain), mark)


def items(values: Sequence[Value], line: int) -> Value:
    return Items(f"{_YAML}seq", values, _mark(line))


def fields(pairs: list[tuple[Value, Value]], line: int) -> Value:
    return Fields(f"{_YAML}map", pairs, _mark(line))


def _problem(fault: yaml.MarkedYAMLError, text: str) -> str:
    if fault.problem == _LIBRARY_TOO_DEEP:
        return _TOO_DEEP
    if not isinstance(fault, yaml.composer.ComposerError) or fault.problem_mark is None:
        return f"not YAML: {fault.problem or fault.context}"
    # A byte order mark is not counted.
    found = _ANCHOR.search(text, fault.problem_mark.index)
    name = "the alias" if found is None else f"`{found[0][:200]}`"
    if fault.context is None:
        return f"{name} has no anchor before it; write the value out"
    return f"{name}: the anchor comes more than once; give each a name of its own"


def _template_hint(text: str, line: int) -> str:
    """To follow what is wrong with the syntax of this line; empty if no template can be the cause."""
    lines = text.split("\n")
    is_template = any(_TEMPLATE.search(each) for each in lines[line - 1 : line]) or any(
        _TEMPLATE_LINE.match(each) for each in lines
    )
    return f"; {_LOOKS_LIKE_A_TEMPLATE}" if is_template else ""


class _Composer(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # in C where the wheel has it
    """PyYAML's composer with bounds. It calls itself for each level: in C, a deep value would end the process."""

    _depth = 0
    _values = 0

    def descend_resolver(self, parent: Value | None, _index: object) -> None:
        """Called before a key or a value is composed, with the list or mapping that it stands in."""
        self._depth += 1
        self._values = 1 if parent is None else self._values + 1
        if parent is not None and self._depth > MAX_DEPTH + 1:
            raise TextFault(line_of(parent), _TOO_DEEP)
        if parent is not None and self._values > MAX_DOCUMENT_VALUES:
            raise _too_many_values(parent)

    def ascend_resolver(self) -> None:
        self._depth -= 1


def _check(value: Value, sizes: dict[int, int]) -> int:
    """How many values this one has, with itself; `sizes` are those of lists and mappings before, 0 of those around."""
    # An alias is the very node that it stands for.
    if (known := sizes.get(id(value))) is not None:
        if not known:
            raise TextFault(line_of(value), "an alias stands within what it stands for; write the value out")
        return known
    if value.tag not in _TAGS[type(value)]:
        raise TextFault(line_of(value), f"the tag `{value.tag}` is not supported; remove it")
    if isinstance(value, Scalar):
        return 1
    sizes[id(value)] = 0
    children = value.value
    if isinstance(value, Fields):
        _check_names(value)
        children = [child for field in value.value for child in field]
    size = 1
    for child in children:
        size += _check(child, sizes)
        # INVARIANT: no value counts more than the bound, so that walking through it is bounded, aliases and all.
        if size > MAX_DOCUMENT_VALUES:
            raise _too_many_values(value)
    sizes[id(value)] = size
    return size


def _check_names(mapping: Fields) -> None:
    names = set()
    for name, _ in mapping.value:
        if not isinstance(name, Scalar):
            # As a value, `{{ .Values.x }}` is a mapping whose key is one.
            way_out = (
                _LOOKS_LIKE_A_TEMPLATE if isinstance(name, Fields) and _is_within_braces(mapping) else "write a name"
            )
            raise TextFault(line_of(name), f"a key is not text; {way_out}")
        if name.value == _MERGE:
            raise TextFault(line_of(name), "merge keys (`<<`) are not supported; write the fields out")
        if name.value in names:
            raise TextFault(line_of(name), f"`{name.value[:200]}`: the key comes more than once; write it once")
        names.add(name.value)


def _is_within_braces(mapping: Fields) -> bool:
    return mapping.flow_style is True and len(mapping.value) == 1 and is_null(mapping.value[0][1])


def _too_many_values(value: Value) -> TextFault:
    return TextFault(line_of(value), f"a document of more than {MAX_DOCUMENT_VALUES} values; split it into several")
