"""The documents of a YAML file, one after another, as values that know their lines.

Nothing is constructed but texts, lists and mappings. Bounds: the file's bytes, how deep a value nests, and how many
values a document has, those of its aliases counted as often as they are meant. Refused: a key that comes twice, merge
keys, tags, and an alias within what it stands for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO

import yaml

from app.formats.lines import TextFault, whole_text

MAX_YAML_BYTES = 32 * 1024 * 1024
MAX_DOCUMENT_VALUES = 1_000_000
MAX_DEPTH = 32

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Only its parser is used, which knows no types; in C where the wheel has it."""

_tag_of: Callable[[type[yaml.Node], str, tuple[bool, bool]], str] = yaml.resolver.Resolver().resolve
"""What YAML 1.1 takes a text for that stands without quotes; it remembers nothing."""

_TEXT = "tag:yaml.org,2002:str"
_NULL = "tag:yaml.org,2002:null"
_MERGE = "<<"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, or what YAML takes for a number, a truth value or a date if it stands without quotes."""

    line: int
    text: str
    is_text: bool
    is_null: bool


@dataclass(frozen=True, slots=True)
class Items:
    line: int
    items: "list[Value]"


@dataclass(frozen=True, slots=True)
class Fields:
    line: int
    fields: "dict[str, Value]"
    key_lines: dict[str, int] = field(default_factory=dict)
    """Of keys whose values begin on later lines."""

    def line_of(self, name: str) -> int:
        return self.key_lines.get(name, self.fields[name].line)


Value = Scalar | Items | Fields


def read_documents(stream: IO[bytes]) -> Iterator[Value]:
    """Each document of the file. Raises TextFault where it can't be read on."""
    too_long = f"YAML of more than {MAX_YAML_BYTES} bytes; split it into several files"
    text = whole_text(stream, MAX_YAML_BYTES, too_long)
    document: _Document | None = None
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                document = _Document()
            elif isinstance(event, yaml.DocumentEndEvent):
                if document is not None and document.root is not None:
                    yield document.root
                document = None
            elif document is not None:
                document.take(event)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        line = 1 if mark is None else mark.line + 1
        raise TextFault(line, f"not YAML: {fault.problem or fault.context}") from None
    except yaml.YAMLError as fault:
        raise TextFault(1, f"not YAML: {str(fault).splitlines()[0]}") from None


class _Open:
    """A list or a mapping whose end is still to come."""

    def __init__(self, value: Items | Fields, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        """Of the mapping, whose value comes next."""
        self.key_line = 0
        self.size = 1


class _Document:
    """One document, put together from events."""

    def __init__(self) -> None:
        self.root: Value | None = None
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Value, int]] = {}

    def take(self, event: yaml.Event) -> None:
        mark = event.start_mark
        line = 1 if mark is None else mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise TextFault(line, f"`*{event.anchor}` has no anchor before it; write the value out")
            value, size = self._anchors[event.anchor]
            self._add(line, value, size)
        elif isinstance(event, yaml.ScalarEvent):
            scalar = self._scalar(line, event)
            self._name(event.anchor, scalar, 1)
            self._add(line, scalar, 1)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            self._begin(line, event)
        else:
            opened = self._open.pop()
            self._name(opened.anchor, opened.value, opened.size)
            self._add(line, opened.value, opened.size)

    def _begin(self, line: int, event: yaml.CollectionStartEvent) -> None:
        if len(self._open) == MAX_DEPTH:
            raise TextFault(line, f"it is nested deeper than {MAX_DEPTH} levels; no KafkaUser is")
        if event.tag is not None:
            raise TextFault(line, f"the tag `{event.tag}` is not supported; remove it")
        is_list = isinstance(event, yaml.SequenceStartEvent)
        self._open.append(_Open(Items(line, []) if is_list else Fields(line, {}), event.anchor))

    def _scalar(self, line: int, event: yaml.ScalarEvent) -> Scalar:
        if event.tag is not None and event.tag not in ("!", _TEXT):
            raise TextFault(line, f"the tag `{event.tag}` is not supported; remove it")
        plain = event.implicit[0]
        tag = _tag_of(yaml.ScalarNode, event.value, (True, False)) if plain else _TEXT
        return Scalar(line, event.value, tag == _TEXT, tag == _NULL)

    def _name(self, anchor: str | None, value: Value, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)

    def _add(self, line: int, value: Value, size: int) -> None:
        if not self._open:
            self.root = value
            return
        within = self._open[-1]
        # INVARIANT: no value counts more than the bound, so that walking through it is bounded, aliases and all.
        within.size += size
        if within.size > MAX_DOCUMENT_VALUES:
            raise TextFault(line, f"a document of more than {MAX_DOCUMENT_VALUES} values; split it into several")
        if isinstance(within.value, Items):
            within.value.items.append(value)
        elif within.key is None:
            within.key, within.key_line = _key(line, value, within.value), line
        else:
            within.value.fields[within.key] = value
            if value.line != within.key_line:
                within.value.key_lines[within.key] = within.key_line
            within.key = None


def _key(line: int, value: Value, within: Fields) -> str:
    if not isinstance(value, Scalar):
        raise TextFault(line, "a key is not text; write a name")
    if value.text == _MERGE:
        raise TextFault(line, "merge keys (`<<`) are not supported; write the fields out")
    if value.text in within.fields:
        raise TextFault(line, f"`{value.text[:200]}`: the key comes more than once; write it once")
    return value.text
