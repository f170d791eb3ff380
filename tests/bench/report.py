"""Measured rows, and the tables that are made of them."""

import statistics
from collections.abc import Sequence

import msgspec


class Row(msgspec.Struct, frozen=True):
    """One thing that was measured, a value a round, beside its yardstick, its bar and its goal.

    The bar is held against the median of `ours`, or, if `of_ratio`, of the ratios to the yardstick round by round.
    """

    what: str
    unit: str
    ours: list[float]
    yardstick: list[float] = []
    bar: float | None = None
    goal: float | None = None
    of_ratio: bool = False
    at_least: bool = False
    note: str = ""

    def judged(self, *, unless: bool) -> "Row":
        """Without its bar and goal, which are set on the full size, if the size is another one."""
        return msgspec.structs.replace(self, bar=None, goal=None) if unless else self

    @property
    def ratios(self) -> list[float]:
        """Ours over the yardstick's: round by round where both have the same rounds, else of the medians."""
        if not self.yardstick or not self.ours:
            return []
        if len(self.ours) == len(self.yardstick):
            return [mine / other for mine, other in zip(self.ours, self.yardstick, strict=True)]
        return [statistics.median(self.ours) / statistics.median(self.yardstick)]

    @property
    def verdict(self) -> str:
        """Whether the bar is held; empty if there is none."""
        if self.bar is None:
            return ""
        judged = self.ratios if self.of_ratio else self.ours
        if not judged:
            return "not measured"
        middle = statistics.median(judged)
        if not self._reaches(middle, self.bar):
            return f"**not held** (by {abs(middle / self.bar - 1):.0%})" if self.bar else "**not held**"
        return "held, goal too" if self.goal is not None and self._reaches(middle, self.goal) else "held"

    def _reaches(self, value: float, mark: float) -> bool:
        return value >= mark if self.at_least else value <= mark


class Table(msgspec.Struct, frozen=True):
    """Rows under one title; `yardstick` names what stands beside ours."""

    title: str
    rows: list[Row]
    yardstick: str = ""
    remarks: list[str] = []

    def judged(self, *, unless: bool) -> "Table":
        """Without bars and goals if the size is another one than they are set on."""
        return msgspec.structs.replace(self, rows=[row.judged(unless=unless) for row in self.rows])


class Section(msgspec.Struct, frozen=True):
    """What one section of the bench has to say: how it measured, and what came of it."""

    name: str
    method: str
    tables: list[Table]


def markdown(table: Table) -> str:
    """The table with its title and remarks, in columns that line up in a terminal, too."""
    lines = [f"### {table.title}", "", *_aligned(_cells(table))]
    if table.remarks:
        lines += ["", *(f"- {remark}" for remark in table.remarks)]
    return "\n".join(lines)


def verdicts(sections: Sequence[Section]) -> tuple[int, list[str]]:
    """How many bars are held, and what the others were set on."""
    judged = [(section.name, row) for section in sections for table in section.tables for row in table.rows]
    judged = [(name, row) for name, row in judged if row.bar is not None]
    missed = [f"{name}, {row.what}: {row.verdict}" for name, row in judged if not row.verdict.startswith("held")]
    return len(judged) - len(missed), missed


def prose(text: str) -> str:
    """One paragraph, however its lines were broken."""
    return " ".join(text.split())


def number(value: float) -> str:
    """Three digits that count, or all before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(values: Sequence[float]) -> str:
    """The median, and the lowest and highest where there are several."""
    if not values:
        return "-"
    middle = number(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({number(min(values))}-{number(max(values))})"


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _cells(table: Table) -> list[list[str]]:
    beside = any(row.yardstick for row in table.rows)
    judged = any(row.bar is not None for row in table.rows)
    noted = any(row.note for row in table.rows)
    head = ["measured", "unit", "Klamm"]
    head += [table.yardstick, "ratio"] if beside else []
    head += ["bar", "goal", "verdict"] if judged else []
    head += ["note"] if noted else []
    return [head, *(_row_cells(row, beside=beside, judged=judged, noted=noted) for row in table.rows)]


def _row_cells(row: Row, *, beside: bool, judged: bool, noted: bool) -> list[str]:
    cells = [row.what, row.unit, spread(row.ours)]
    cells += [spread(row.yardstick), spread(row.ratios)] if beside else []
    cells += [_mark(row, row.bar), _mark(row, row.goal), row.verdict] if judged else []
    return cells + ([row.note] if noted else [])


def _mark(row: Row, mark: float | None) -> str:
    if mark is None:
        return ""
    return f"{'>=' if row.at_least else '<='} {mark:,g}{' x' if row.of_ratio else ''}"


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]
