"""Records of comma-separated text (RFC 4180), a quoted field over several lines included, one record held at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from app.formats.lines import MAX_LINE_BYTES, text_lines


@dataclass(frozen=True, slots=True)
class CsvField:
    """The text of a field, and whether it stood in quotes."""

    text: str
    quoted: bool


def csv_records(stream: IO[bytes]) -> Iterator[tuple[int, list[CsvField] | str]]:
    """Each record with the number of its first line, or what is wrong with it; empty lines are passed over."""
    record = _Record()
    for number, line in text_lines(stream, way_out="write one ACL a record"):
        if isinstance(line, list):
            yield record.line or number, line[0]
            record = _Record()
            continue
        if not record.line and not line.strip():
            continue
        record.line = record.line or number
        fault = record.take(line)
        if fault is None and record.open:
            if record.characters <= MAX_LINE_BYTES:
                continue
            fault = f"the record is longer than {MAX_LINE_BYTES} characters; is a quote missing?"
        yield record.line, record.fields if fault is None else fault
        record = _Record()
    if record.open:
        yield record.line, "the file ends within quotes; add the closing quote"


@dataclass(slots=True)
class _Record:
    line: int = 0
    fields: list[CsvField] = field(default_factory=list)
    open: bool = False
    """Whether its last field is in quotes that have not ended yet."""
    characters: int = 0
    _parts: list[str] = field(default_factory=list)

    def take(self, line: str) -> str | None:
        """Take in one more line; what is wrong with it. Each character is looked at once."""
        self.characters += len(line)
        text = line if self.open else _without_end(line)
        at: int | None = 0
        if self.open:
            at = self._quoted(line, 0)
            text = line if at is None else _without_end(line)
        while at is not None:
            if at < 0:
                return 'a `"` within quotes that is not written twice; write it as `""`'
            if at > len(text):
                return None
            at = self._field(text, line, at)
        return None

    def _field(self, text: str, line: str, at: int) -> int | None:
        """The field that begins there; where the next one would begin, None if its quotes are still open."""
        if text[at : at + 1] == '"':
            self.open = True
            return self._quoted(line, at + 1)
        end = text.find(",", at)
        end = len(text) if end < 0 else end
        self.fields.append(CsvField(text[at:end], quoted=False))
        return end + 1

    def _quoted(self, line: str, at: int) -> int | None:
        """Goes on within quotes, line end and all; -1 if they end where no field ends."""
        while (quote := line.find('"', at)) >= 0:
            self._parts.append(line[at:quote])
            if line[quote + 1 : quote + 2] != '"':
                self.fields.append(CsvField("".join(self._parts), quoted=True))
                self._parts, self.open = [], False
                end = len(_without_end(line))
                return quote + 2 if quote + 1 >= end or line[quote + 1] == "," else -1
            self._parts.append('"')
            at = quote + 2
        self._parts.append(line[at:])
        return None


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")
