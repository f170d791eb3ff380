"""The records of comma-separated text (RFC 4180), one after the other, each field with whether it was quoted."""

import csv
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

from app.formats.lines import MAX_LINE_BYTES, text_lines

_TOO_LONG = f"the record is longer than {MAX_LINE_BYTES} characters; is a quote missing?"
_FAULTS = {
    "unexpected end of data": "the file ends within quotes; add the closing quote",
    "',' expected after": 'a `"` within quotes is not doubled; write it as `""`',
    "new-line character seen": "a carriage return outside quotes; quote the field",
    "field larger than": "a field is longer than any field of an ACL can be; is a quote missing?",
}


class CsvField(NamedTuple):
    text: str
    quoted: bool


class _Lines:
    """An iterator of lines for csv.reader that keeps those of the current record."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines = text_lines(stream, way_out="write one ACL per record")
        self.begin_record()

    def begin_record(self) -> None:
        self.first_line = self._characters = 0
        self.record: list[str] = []

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        number, line = next(self._lines)
        self.first_line = self.first_line or number
        if isinstance(line, list):
            raise csv.Error(line[0])
        self.record.append(line)
        self._characters += len(line)
        if self._characters > MAX_LINE_BYTES:
            raise csv.Error(_TOO_LONG)
        return line


def csv_records(stream: IO[bytes]) -> Iterator[tuple[int, list[CsvField] | str]]:
    """Each record with the number of its first line, or what is wrong with it; blank lines are skipped."""
    lines = _Lines(stream)
    reader = csv.reader(lines, strict=True)
    while True:
        lines.begin_record()
        try:
            texts = next(reader)
        except StopIteration:
            return
        except csv.Error as fault:
            said = str(fault)
            yield lines.first_line, next((plain for begin, plain in _FAULTS.items() if said.startswith(begin)), said)
        else:
            record = "".join(lines.record)
            if record.strip():
                yield lines.first_line, list(_fields(texts, record))


def _fields(texts: Sequence[str], record: str) -> Iterator[CsvField]:
    # csv.reader does not tell which fields were quoted, but a field's text tells how long the field is in the record.
    at = 0
    for text in texts:
        quoted = record[at : at + 1] == '"'
        yield CsvField(text, quoted)
        at += len(text) + (2 + text.count('"') if quoted else 0) + 1
