"""Lines of the decision log's files as rows: decisions, lines put aside, and a summary of each file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from app.pipeline.history.decision_lines import MAX_LINE_BYTES, LineFault, parse_line
from app.pipeline.history.schemas import DAY, DECISIONS, columns
from app.pipeline.spark.arrow import batch_of

# Rows of one Arrow batch. Each repeats what the decisions of a line share, such as a principal of 32 KB.
_ROWS_AT_ONCE = 1_000
_DIGEST_BYTES = 8

FAULT = ("file", "column", "reason", "line")
"""The columns of a line that is put aside."""

_PLACE = columns("source int, number bigint, digest bigint, stream string")
PLACE = tuple(_PLACE.fieldNames())
"""The number of the file among those read, that of the line in it, from 1, and the digest of all lines up to this one.
`stream` is null unless the row is a file's summary."""

PARSED = StructType(
    [
        *(StructField(each.name, each.dataType) for each in (*DECISIONS.fields, DAY)),
        *columns(", ".join(f"{name} string" for name in FAULT)).fields,
        *_PLACE.fields,
    ]
)
_NO_DECISION = (None,) * (len(DECISIONS.fields) + 1)
_NO_FAULT = (None,) * len(FAULT)

Row = Sequence[object]


def parse_batches(
    latest: datetime, sources: Mapping[str, int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """PARSED rows of (value, file). The lines of a file must come one after the other, and in order."""
    reading: _Reading | None = None
    rows: list[Row] = []
    for batch in batches:
        raws, files = (batch.column(at).to_pylist() for at in (0, 1))
        for raw, file in zip(raws, files, strict=True):
            if reading is None or reading.file != file:
                rows += () if reading is None else (reading.summary(),)
                reading = _Reading(file, sources[file])
            rows += reading.rows_of(raw, latest)
            while len(rows) >= _ROWS_AT_ONCE:
                yield batch_of(rows[:_ROWS_AT_ONCE], PARSED)
                del rows[:_ROWS_AT_ONCE]
    if reading is not None:
        yield batch_of([*rows, reading.summary()], PARSED)


class _Reading:
    __slots__ = ("_digest", "_number", "_position", "_position_digest", "_stream", "file", "source")

    def __init__(self, file: str, source: int) -> None:
        self.file = file
        self.source = source
        self._number = self._digest = 0
        self._position = self._position_digest = 0
        self._stream = ""

    def rows_of(self, raw: bytes, latest: datetime) -> list[Row]:
        self._number += 1
        chained = blake2b(self._digest.to_bytes(_DIGEST_BYTES, signed=True) + raw, digest_size=_DIGEST_BYTES).digest()
        self._digest = int.from_bytes(chained, signed=True)
        if not raw or raw.isspace():
            return []
        line = parse_line(raw, latest)
        place = (self.source, self._number, self._digest, None)
        if isinstance(line, LineFault):
            text = raw[:MAX_LINE_BYTES].decode(errors="backslashreplace")
            rows: list[Row] = [(*_NO_DECISION, self.file, line.column, line.reason, text, *place)]
        else:
            rows = [(*row, row[0].date(), *_NO_FAULT, *place) for row in line]  # type: ignore[union-attr]  # `time`
            self._stream = self._stream or blake2b(raw, digest_size=16).hexdigest()
        # The last line may be incomplete, as its end is still to come.
        if rows and not (isinstance(line, LineFault) and not line.column):
            self._position, self._position_digest = self._number, self._digest
        return rows

    def summary(self) -> Row:
        """The row whose number is the position, with the digest of the lines up to there."""
        stream = self._stream or f"no decision {self._digest:x}"
        return (*_NO_DECISION, *_NO_FAULT, self.source, self._position, self._position_digest, stream)
