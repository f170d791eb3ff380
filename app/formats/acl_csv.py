"""ACLs as comma-separated text: seven columns, as kafbat UI and Kafka Security Manager (KSM) have them.

Where any ACL has an end or an owner, there are two columns more. An empty cell in them says that there is none; a file
without them says nothing of either.

Those two write fields as they are, so that a distinguished name falls into several. A record without any quotes and
with too many fields is put together again around its words (resource type, pattern type, operation, permission type),
if there is one way only to do so. Both read a record with a comma at its end as if it had none, and so does Klamm.
What is written here is quoted (RFC 4180).

Texts that a spreadsheet would run as formulas are marked (`formats.csv_cells`). The header says so: a column called
`'Principal` has marks, one called `Principal` has none, so that a file without marks means what it says.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

from app.core.kafka.bindings import KEEP, NO_TERMS, NewAcl, rfc3339
from app.core.kafka.codes import CLUSTER_NAME, CODED_FIELDS, PatternType, ResourceType
from app.core.kafka.validation import refusal_of_texts
from app.core.spelling import nearest
from app.formats.acl_entries import VAGUE, Entry, Problem, acl_of
from app.formats.csv_cells import MARK, is_formula, marked, unmarked
from app.formats.csv_records import CsvField, csv_records
from app.formats.reading import Reading
from app.formats.source import Source
from app.formats.words import is_word, loosely

# The columns of a file without a header.
_BINDING = ("Principal", "ResourceType", "PatternType", "ResourceName", "Operation", "PermissionType", "Host")
HEADER = (*_BINDING, "ExpiresAt", "Owner")
_STANDARD = ("principal", "resource_type", "pattern_type", "resource_name", "operation", "permission_type", "host")
_COLUMNS = {
    "kafkaprincipal": "principal",
    **{name.lower(): column for name, column in zip(HEADER, (*_STANDARD, "expires_at", "owner"), strict=True)},
}
_REQUIRED = tuple(each for each in _STANDARD if each != "pattern_type")
_TERMS = ("expires_at", "owner")
_TEXTS = ("principal", "resource_name", "host", "owner")
_MAY_END_EMPTY = ("principal", "resource_name", *_TERMS)
_MOST_IN_DATA = 3
"""No record of an ACL has more cells that are called like columns: a principal has a colon, words are no columns."""

_AROUND_NAMES = ' "\t\r'
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_OF_EXCEL = re.compile(r'"?sep=.?"?\Z', re.IGNORECASE)
_ADVICE = "quote a name that holds a comma, and write one record for each principal, topic, host and operation"
_MAX_PARTS = 100
"""A record with more parts is not joined, and a header with more is none; no name has so many commas."""

_WITH_COMMAS = frozenset({ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.USER})
"""The types whose names may hold a comma. Neither Kafka's topics nor the addresses of hosts do."""

_BEGINS_PRINCIPAL = re.compile(r"\s*\w+:")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#|\$\{")
_NEEDS_QUOTES = re.compile(rf'[",;\t\r\n]|\A[\s#]|\s\Z|\A\Z|{_TEMPLATE.pattern}')


@dataclass(frozen=True, slots=True)
class _Columns:
    spelt: Mapping[str, str]
    """Each column in the order of the file, and what the file calls it."""
    marked: frozenset[str] = frozenset()
    cells: int = len(_STANDARD)
    """How many the header has, with empty ones at its end."""


_USUAL = _Columns(dict(zip(_STANDARD, _BINDING, strict=True)))


def is_csv(head: bytes) -> bool:
    first = next((line for line in head.decode(errors="replace").split("\n") if line.strip()), "").strip()
    return _OF_EXCEL.match(first) is not None or any(_is_header(first.split(each)) for each in (",", *_SEPARATORS))


def read_csv(source: Source, _: Reading) -> Iterator[Entry]:
    columns: _Columns | None = None
    missing = 0
    for line, record in csv_records(source.stream):
        if isinstance(record, str):
            yield line, [Problem(record)]
            columns = columns or _USUAL
            continue
        if columns is None:
            found = _header(record)
            if isinstance(found, list):
                yield line, found
                return
            columns = found or _USUAL
            if found is not None:
                continue
        goes_on = missing > 0 and len(record) in (missing, missing + 1)
        missing = 0 if goes_on else max(0, len(columns.spelt) - len(record))
        # A record over two lines was told at the first of them.
        if not goes_on:
            yield line, _acl(record, columns)


def write_csv(acls: Sequence[NewAcl], out: TextIO) -> None:
    """RFC 4180, with a header. Texts that others would trim, split or fill in are quoted, formulas are marked.

    The ACLs say all their terms.
    """
    header: tuple[str, ...] = HEADER if any(each.terms_over(NO_TERMS) != NO_TERMS for each in acls) else _BINDING
    if any(is_formula(text) for each in acls for text in _texts(each)):
        header = tuple(f"{MARK}{each}" if _COLUMNS[each.lower()] in _TEXTS else each for each in header)
    out.write(f"{','.join(header)}\r\n")
    for acl in acls:
        each = acl.binding
        fields = (
            _quoted(marked(each.principal)),
            each.resource_type.name,
            each.pattern_type.name,
            _quoted(marked(each.resource_name)),
            each.operation.name,
            each.permission_type.name,
            _quoted(marked(each.host)),
            rfc3339(acl.expires_at) if isinstance(acl.expires_at, datetime) else "",
            _quoted(marked(acl.owner)) if isinstance(acl.owner, str) else "",
        )
        out.write(f"{','.join(fields[: len(header)])}\r\n")


def _texts(acl: NewAcl) -> tuple[str, str, str, str]:
    owner = acl.owner if isinstance(acl.owner, str) else ""
    return acl.binding.principal, acl.binding.resource_name, acl.binding.host, owner


def _quoted(text: str) -> str:
    if _NEEDS_QUOTES.search(text) is None:
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


# the header


def _is_header(cells: Sequence[str]) -> bool:
    return sum(_column(each.strip(_AROUND_NAMES)) is not None for each in cells) > _MOST_IN_DATA


def _column(name: str) -> str | None:
    column = _COLUMNS.get(name.removeprefix(MARK).replace("_", "").lower())
    return column if column in _TEXTS or not name.startswith(MARK) else None


def _header(record: Sequence[CsvField]) -> _Columns | list[Problem] | None:
    """The columns that a file's first record names, or what is wrong with them; None if it is a record of an ACL."""
    cells = [each.text for each in record]
    if _OF_EXCEL.match(cells[0].strip()) is not None:
        return [Problem("a line for Excel, no header; remove it")]
    if _is_header(cells):
        return _columns(cells)
    for separator, name in _SEPARATORS.items():
        if _is_header(",".join(cells).split(separator)):
            return [Problem(f"the columns are separated by {name}; save the file with commas")]
    if _is_header(",".join(cells).split(",")):
        return [Problem("the whole line is within quotes; write each field in quotes of its own")]
    return None


def _columns(cells: Sequence[str]) -> _Columns | list[Problem]:
    spelt: dict[str, str] = {}
    problems: list[Problem] = []
    meant: set[str | None] = set()
    last = max(at for at, each in enumerate(cells) if each.strip())
    if last >= _MAX_PARTS:
        return [Problem(f"{last + 1} columns; an ACL has {len(HEADER)} at most")]
    # Spreadsheets write empty columns at the end; each record then has empty cells there, too.
    for name in (each.strip(_AROUND_NAMES) for each in cells[: last + 1]):
        column = _column(name)
        if column is None and _BEGINS_PRINCIPAL.search(name) is not None:
            return [Problem("a record begins here; is a line end missing?", (name,))]
        if column is None:
            known = nearest(name, HEADER)
            meant.add(_COLUMNS.get((known or "").lower()))
            hint = f"did you mean {known}?" if known else f"the columns are {', '.join(HEADER)}"
            problems.append(Problem(f"there is no such column; {hint}", (name,)))
        elif column in spelt:
            problems.append(Problem("the column comes more than once; keep one", (name,)))
        else:
            spelt[column] = name
    names = dict(zip(_STANDARD, _BINDING, strict=True))
    problems += [
        Problem("the column is missing", (names[each],)) for each in _REQUIRED if each not in spelt.keys() | meant
    ]
    with_marks = frozenset(column for column, name in spelt.items() if name.startswith(MARK))
    if with_marks and not problems:
        problems += [
            Problem(f"a mark (`{MARK}`) is missing before it; export the ACLs again", (name,))
            for column, name in spelt.items()
            if column in _TEXTS and column not in with_marks
        ]
    names = {column: name.removeprefix(MARK) for column, name in spelt.items()}
    return problems or _Columns(names, with_marks, len(cells))


# the records


_SOUND = {
    "principal": "User:a",
    "resource_type": ResourceType.TOPIC.name,
    "resource_name": CLUSTER_NAME,
    "pattern_type": PatternType.LITERAL.name,
    "operation": "READ",
    "permission_type": "DENY",
    "host": "*",
}
"""What stands for a cell with a fault, so that those of the other cells are found as well."""


def _acl(record: list[CsvField], columns: _Columns) -> NewAcl | list[Problem]:
    fields = _as_many(record, columns)
    if isinstance(fields, Problem):
        return [fields]
    texts: dict[str, str] = {"pattern_type": PatternType.LITERAL.name}
    terms: dict[str, str | None] = {}
    problems: list[Problem] = []
    for (column, name), each in zip(columns.spelt.items(), fields, strict=True):
        text = _text(column, each, has_marks=column in columns.marked)
        if isinstance(text, Problem):
            problems.append(Problem(text, (name,)))
            text = _SOUND.get(column, "")
        if column in _TERMS:
            terms[column] = text or None
        else:
            texts[column] = text
    acl = acl_of(
        **texts,
        expires_at=terms.get("expires_at", KEEP),
        owner=terms.get("owner", KEEP),
        called=columns.spelt,
    )
    if isinstance(acl, list):
        problems += [each if each.place else _placed(each, texts, columns.spelt) for each in acl]
    if problems and not any(each.text for each in record):
        return [Problem("a record without any text; remove the line")]
    if problems and _is_header([each.text for each in record]):
        return [Problem("a second header; put each list into a file of its own")]
    return problems or acl


def _text(column: str, cell: CsvField, *, has_marks: bool) -> str | Problem:
    """What a cell says, or what is wrong with it."""
    words = CODED_FIELDS.get(column)
    if words is not None:
        word = loosely(words, cell.text)
        return Problem(f"`{word}` is a word of filters, and of no ACL") if word in VAGUE else word
    fault = None if cell.quoted else _fault_of_bare(cell.text)
    if fault is None and not cell.text and column not in _TERMS:
        fault = "an empty cell; write `*` for every host" if column == "host" else "an empty cell; fill it in"
    text = unmarked(cell.text) if has_marks else cell.text
    if text is None:
        fault = f"a mark (`{MARK}`) is missing, so the original text is unknown; export the ACLs again"
        return Problem(fault)
    return text if fault is None else Problem(fault)


def _fault_of_bare(text: str) -> str | None:
    """Why a text needs quotes, or is none."""
    if text.startswith("#"):
        return "it looks like a comment, and CSV has none; remove the line, or quote the field if its text begins so"
    if text != text.strip():
        return "white space at its start or end; remove it, or quote the field if it belongs there"
    if text.count('"') % 2:
        return 'a `"` without a second one; quote the field, and double each `"` in it'
    if _TEMPLATE.search(text) is not None:
        return "a template that was not filled in; fill it in, or quote the field if it is meant so"
    return None


def _placed(problem: Problem, texts: Mapping[str, str], spelt: Mapping[str, str]) -> Problem:
    """The same, with the column that it is about."""
    resource_type = ResourceType.__members__.get(texts["resource_type"], ResourceType.UNKNOWN)
    for column in ("resource_name", "principal", "host"):
        only = {**_SOUND, column: texts[column]}
        if refusal_of_texts(resource_type, only["resource_name"], only["principal"], only["host"]) == problem:
            return Problem(problem, (spelt[column],))
    column = next(each for each in _TERMS if problem.startswith(each))
    return Problem(problem, (spelt[column],))


def _as_many(record: list[CsvField], header: _Columns) -> list[CsvField] | Problem:
    """As many fields as there are columns, or why the record has none such."""
    columns = tuple(header.spelt)
    fields = list(record)
    # kafbat UI and KSM read a comma at the end of a record so, and spreadsheets write it. A last column that may be
    # empty, or end with a comma, leaves it open which of the cells is the one too many.
    if columns[-1] not in _MAY_END_EMPTY or len(record) == header.cells:
        while len(fields) > len(columns) and fields[-1] == CsvField("", quoted=False):
            fields.pop()
    if len(fields) == len(columns):
        return fields
    has = f"{len(record)} field{'s' if len(record) > 1 else ''} for {len(columns)} columns"
    other = next((each for each in _SEPARATORS if record[0].text.count(each) >= len(_REQUIRED) - 1), None)
    if other is not None:
        return Problem(f"{has}: they are separated by {_SEPARATORS[other]}; save the file with commas")
    if len(fields) < len(columns):
        return Problem(f"{has}: some are missing, or the record goes on in the next line; write each on one line")
    if sum(is_word(CODED_FIELDS["permission_type"], each.text) for each in fields) > 1:
        return Problem(f"{has}, with two permission types: is a line end missing? {_ADVICE}")
    if any(each.quoted for each in fields):
        return Problem(f"{has}; {_ADVICE}")
    return _put_together([each.text for each in fields], columns) or Problem(
        f"{has}, and their values do not fit the columns in one way only; {_ADVICE}"
    )


def _put_together(parts: list[str], columns: Sequence[str]) -> list[CsvField] | None:
    """The fields that these parts were before they were split at every comma; None if that can't be told."""
    more = len(parts) - len(columns)
    if len(parts) > _MAX_PARTS:
        return None
    # Beside a column of any text, nobody can tell in which of the two the comma was.
    joined = {
        column
        for before, column, after in zip(("", *columns), columns, (*columns[1:], ""), strict=False)
        if all(each in ("", *CODED_FIELDS) for each in (before, after))
    }
    ways = [
        _way(parts, columns, {"principal": 1 + each, "resource_name": 1 + more - each}, joined)
        for each in range(more + 1)
    ]
    possible = [each for each in ways if each is not None]
    return possible[0] if len(possible) == 1 else None


def _way(
    parts: list[str], columns: Sequence[str], sizes: Mapping[str, int], joined: Collection[str]
) -> list[CsvField] | None:
    """The parts, with so many of them in these columns; None if they don't fit. Several make one in those `joined`."""
    at = 0
    fields: dict[str, str] = {}
    for column in columns:
        some = parts[at : at + sizes.get(column, 1)]
        at += len(some)
        words = CODED_FIELDS.get(column)
        fits = (
            is_word(words, some[0])
            if words is not None
            else len(some) == 1 or (column in joined and _is_one_text(column, some))
        )
        if not fits:
            return None
        fields[column] = ",".join(some)
    if sizes["resource_name"] > 1:
        resource_type = ResourceType[loosely(ResourceType, fields["resource_type"])]
        if resource_type not in _WITH_COMMAS:
            return None
    return [CsvField(each, quoted=False) for each in fields.values()]


def _is_one_text(column: str, parts: Sequence[str]) -> bool:
    """Whether these may be parts of one name; a comma too many, a second name or record are none."""
    if not (parts[0] and parts[-1]) or any(is_word(words, each) for each in parts for words in CODED_FIELDS.values()):
        return False
    if column != "principal":
        return column == "resource_name"
    return [_BEGINS_PRINCIPAL.match(each) is not None for each in parts] == [True] + [False] * (len(parts) - 1)
