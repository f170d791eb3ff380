"""What the lookup box searches, as the page carries it: compact JSON of bounded size.

texts       every text that is used more than once, referred to by its place
resources   [type, name, prefix, [readers, first ...], [writers, first ...], last read, last written]
principals  [name, team, [patterns, [type, pattern type, name, host, allowed, denied] ...], last allowed, last denied]
axes        teams and prefixes of the heat map; null: others
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from app.pipeline.report.figures import AccessFigures, LookupFigures, PrincipalEntry, ResourceEntry, Some
from app.pipeline.report.heat import OTHERS
from app.pipeline.report.reach import EVERYONE
from app.pipeline.report.text import script_json, visible

MOST_BYTES = 2_000_000
"""For resources, and again for principals; the page must be small enough for mail."""
_COMMA = 1

_T = TypeVar("_T")


def embedded(lookup: LookupFigures, access: AccessFigures) -> str:
    texts = _Texts()
    axes = [
        [None if key == OTHERS else texts.place(_team(key)) for key in each] for each in (access.teams, access.prefixes)
    ]
    resources, without = _as_many_as_fit(lookup.resources, lambda each: _resource(each, texts), texts)
    principals, unnamed = _as_many_as_fit(lookup.principals, lambda each: _principal(each, texts), texts)
    document = {
        "texts": texts.all,
        "resources": resources,
        "principals": principals,
        "more": [lookup.more_resources + without, lookup.more_principals + unnamed],
        "axes": axes,
        "logged": lookup.is_logged,
    }
    return script_json(document)


class _Texts:
    """Texts by their places, all made visible, and how many bytes they take."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self.size = 0

    def place(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = len(self._places)
            self.size += len(script_json(visible(text))) + _COMMA
        return self._places[text]

    def places(self, texts: Iterable[str]) -> list[int]:
        return [self.place(text) for text in texts]

    @property
    def all(self) -> list[str]:
        return [visible(text) for text in self._places]


def _as_many_as_fit(
    entries: Sequence[_T], row_of: Callable[[_T], list[object]], texts: _Texts
) -> tuple[list[list[object]], int]:
    """The rows that fit, and how many entries do not."""
    rows: list[list[object]] = []
    size, before = 0, texts.size
    for entry in entries:
        row = row_of(entry)
        size += len(script_json(row)) + _COMMA
        if size + texts.size - before > MOST_BYTES:
            break
        rows.append(row)
    return rows, len(entries) - len(rows)


def _resource(entry: ResourceEntry, texts: _Texts) -> list[object]:
    return [
        texts.place(entry.resource_type),
        visible(entry.name),
        texts.place(entry.prefix),
        _named(entry.readers, texts),
        _named(entry.writers, texts),
        entry.last_read,
        entry.last_write,
    ]


def _named(principals: Some[str], texts: _Texts) -> list[int]:
    return [principals.count, *texts.places(principals.first)]


def _principal(entry: PrincipalEntry, texts: _Texts) -> list[object]:
    patterns = [
        texts.places((each.resource_type, each.pattern_type, each.name, each.host, each.allowed, each.denied))
        for each in entry.patterns.first
    ]
    return [
        texts.place(entry.name),
        texts.place(_team(entry.team)),
        [entry.patterns.count, *patterns],
        entry.last_allowed,
        entry.last_denied,
    ]


def _team(key: str) -> str:
    return "everyone" if key == EVERYONE else key
