"""What plotly draws: each chart's traces and layout as plain values, colours by role.

A role (`@lost`) becomes a colour in the page, once for light and once for dark. Labels are made safe for plotly here.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from app.pipeline.report.figures import AccessFigures, Question, Timeline
from app.pipeline.report.heat import OTHERS
from app.pipeline.report.text import distinct_labels, plain_label

Spec = dict[str, Any]

_SHORT = 18
_DECADE = 10
_SHARE_SCALE: Spec = {"zmin": 0, "zmax": 100, "colorbar": {"title": {"text": "% of the<br>prefix"}, "ticksuffix": " %"}}
_MOST_WITH_NUMBERS = 26
"""Columns up to which there is room for a number in each cell."""
_ROW_PX, _CELL_PX = 26, 24
_FEW = 6
"""Up to this number an axis counts by ones: there are no half findings."""


def _short_labels(names: Sequence[str]) -> list[str]:
    return [plain_label(name.removeprefix("User:"), _SHORT) for name in names]


def heat_map(figures: AccessFigures, teams: Sequence[str], prefixes: Sequence[str]) -> Spec:
    """For each question, by number and by share, its traces and layout. Cells with nothing to reach are left blank.

    Others, which sum up many, are shown apart from the rest and from its scale.
    """
    rows, columns = distinct_labels(teams, 26), distinct_labels(prefixes, 20)
    axes = _Axes(rows, _short_labels(teams), columns, figures.teams[-1:] == [OTHERS], figures.prefixes[-1:] == [OTHERS])
    variants = {}
    for question, grid in figures.reach.items():
        totals = figures.totals[question.resource_type]
        cells = [
            _Cell(row, column, number, totals[column])
            for row, line in enumerate(grid)
            for column, number in enumerate(line)
            if number
        ]
        for measure in ("number", "share"):
            variants[f"{key_of(question)}|{measure}"] = _variant(cells, axes, measure)
    return {"data": [], "layout": {}, "variants": variants}


class _Cell(NamedTuple):
    row: int
    column: int
    number: int
    of: int

    @property
    def share(self) -> float:
        return 100 * self.number / self.of


class _Axes(NamedTuple):
    """Labels of all rows and columns, short ones for narrow screens, and whether the last ones are others."""

    rows: Sequence[str]
    short_rows: Sequence[str]
    columns: Sequence[str]
    has_other_rows: bool
    has_other_columns: bool

    def is_apart(self, cell: _Cell) -> bool:
        in_rows = self.has_other_rows and cell.row == len(self.rows) - 1
        return in_rows or (self.has_other_columns and cell.column == len(self.columns) - 1)


def _variant(cells: Sequence[_Cell], axes: _Axes, measure: str) -> Spec:
    rows = _places({cell.row for cell in cells}, len(axes.rows) - 1 if axes.has_other_rows else None)
    columns = _places({cell.column for cell in cells}, len(axes.columns) - 1 if axes.has_other_columns else None)
    among = {(cell.row, cell.column): cell for cell in cells if not axes.is_apart(cell)}
    apart = {(cell.row, cell.column): cell for cell in cells if axes.is_apart(cell)}
    scale = _log_scale(among.values()) if measure == "number" else _SHARE_SCALE
    traces = [
        {**_trace(known, rows, columns, measure), **shade}
        for known, shade in (
            (among, {"colorscale": "@heat", **scale}),
            (apart, {"colorscale": "@apart", "showscale": False, "zmin": 0, "zmax": 1}),
        )
    ]
    layout = {
        "height": 150 + _CELL_PX * max(len(rows), 2),
        "xaxis": {
            "side": "top",
            "tickangle": -45,
            "showgrid": False,
            "title": {"text": "resource prefix"},
            **_ticks([None if each is None else axes.columns[each] for each in columns]),
        },
        "yaxis": {
            "autorange": "reversed",
            "showgrid": False,
            "title": {"text": "team"},
            **_ticks([None if each is None else axes.rows[each] for each in rows]),
        },
        "meta": {"short": {"yaxis": [axes.short_rows[each] for each in rows if each is not None]}},
    }
    return {"data": traces, "layout": layout, "least": 300 + 22 * len(columns)}


def _trace(
    known: Mapping[tuple[int, int], _Cell], rows: Sequence[int | None], columns: Sequence[int | None], measure: str
) -> Spec:
    grid = [[None if row is None or column is None else known.get((row, column)) for column in columns] for row in rows]
    numbered = len(columns) <= _MOST_WITH_NUMBERS
    return {
        "type": "heatmap",
        "x": list(range(len(columns))),
        "y": list(range(len(rows))),
        "z": [[None if each is None else _shade_of(each, measure) for each in line] for line in grid],
        "text": [["" if each is None else _told(each, measure) for each in line] for line in grid],
        "customdata": [["" if each is None else f"{each.number:,} of {each.of:,}" for each in line] for line in grid],
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "hovertemplate": "%{y} → %{x}<br>%{customdata} resources<extra></extra>",
        **({"texttemplate": "%{text}", "textfont": {"size": 10}} if numbered else {}),
    }


def _places(used: set[int], others: int | None) -> list[int | None]:
    """Those with a number, in their order, and a gap before others."""
    places: list[int | None] = [*sorted(used)]
    if others in used and len(used) > 1:
        places.insert(-1, None)
    return places


def _log_scale(cells: Iterable[_Cell]) -> Spec:
    highest = max((cell.number for cell in cells), default=1)
    ticks = [1, 2, 5] if highest < _DECADE else [10**power for power in range(len(str(highest)))]
    return {
        "zmin": 0,
        "zmax": round(math.log10(max(highest, 2)), 3),
        "colorbar": {
            "title": {"text": "resources"},
            "tickvals": [round(math.log10(each), 3) for each in ticks if each <= highest],
            "ticktext": [f"{each:,}" for each in ticks if each <= highest],
        },
    }


def _shade_of(cell: _Cell, measure: str) -> float:
    return round(math.log10(cell.number), 3) if measure == "number" else round(cell.share, 1)


def _told(cell: _Cell, measure: str) -> str:
    return f"{cell.number:,}" if measure == "number" else f"{cell.share:.0f}"


def key_of(question: Question) -> str:
    return f"{question.operation} {question.resource_type}"


def _ticks(labels: Sequence[str | None]) -> Spec:
    """Labels at 0, 1, ... of an axis of numbers; None has none.

    On an axis of categories plotly loses names that JavaScript's objects have already, such as `constructor`.
    """
    named = {at: label for at, label in enumerate(labels) if label is not None}
    return {"zeroline": False, "tickmode": "array", "tickvals": list(named), "ticktext": list(named.values())}


def bars(names: Sequence[str], series: Mapping[str, Sequence[float]], roles: Mapping[str, str], unit: str) -> Spec:
    labels = distinct_labels(names)
    most = max(map(sum, zip(*series.values(), strict=True)), default=0)
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": plain_label(name),
            "y": list(range(len(labels))),
            "x": list(numbers),
            "marker": {"color": roles[name], "pattern": _pattern(roles[name])},
            "hovertemplate": f"%{{y}}<br>%{{x:,}} {plain_label(unit)}<extra>%{{fullData.name}}</extra>",
        }
        for name, numbers in series.items()
        if any(numbers)
    ]
    layout = {
        "barmode": "stack",
        "height": 110 + _ROW_PX * max(len(labels), 2),
        "showlegend": len(series) > 1,
        "xaxis": {"title": {"text": plain_label(unit)}, "rangemode": "tozero", **({"dtick": 1} if most < _FEW else {})},
        "yaxis": {"autorange": "reversed", **_ticks(labels)},
        "meta": {"short": {"yaxis": _short_labels(names)}},
    }
    return {"data": data, "layout": layout}


_PATTERNS = {"@lost": "/", "@denied": "/", "@removed": "/", "@kind2": "\\", "@kind3": "x", "@kind4": "."}
"""So that bars also differ without colours."""


def _pattern(role: str) -> Spec:
    return {"shape": _PATTERNS.get(role, ""), "fillmode": "overlay", "solidity": 0.2}


def over_time(timeline: Timeline, line: tuple[str, Sequence[float]], stacks: Sequence[tuple[str, str, int]]) -> Spec:
    times = [utc(bucket.start) for bucket in timeline.buckets]
    name, values = line
    end = timeline.buckets[-1].start + timeline.step
    above = {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [*times, utc(end)],
        "y": [*values, values[-1]],
        "line": {"color": "@total", "width": 2.5, "shape": "hv"},
        "fill": "tozeroy",
        "hovertemplate": f"%{{x}} UTC<br>%{{y:,}} {name}<extra></extra>",
    }
    below = []
    for label, role, which in stacks:
        counts = [bucket.first if abs(which) == 1 else bucket.second for bucket in timeline.buckets]
        below.append(
            {
                "type": "bar",
                "name": label,
                "x": times,
                "y": counts if which > 0 else [-number for number in counts],
                "customdata": counts,
                "yaxis": "y2",
                "offset": 0,
                "width": 920 * timeline.step,
                "marker": {"color": role, "pattern": _pattern(role)},
                "hovertemplate": f"%{{x}} UTC<br>%{{customdata:,}} {label}<extra></extra>",
            }
        )
    layout = {
        "height": 430,
        "barmode": "relative",
        "showlegend": True,
        "xaxis": {"type": "date", "title": {"text": "time (UTC)"}, "anchor": "y2"},
        "yaxis": {"domain": [0.46, 1], "title": {"text": name}, "rangemode": "tozero"},
        "yaxis2": {"domain": [0, 0.36], "title": {"text": f"per {in_words(timeline.step)}"}, "rangemode": "tozero"},
    }
    return {"data": [above, *below], "layout": layout}


def utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def in_words(step: int) -> str:
    """The length of a bucket in words: `5 minutes`, `day`."""
    sizes = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
    word, size = next((word, size) for word, size in sizes.items() if step % size == 0)
    return word if step == size else f"{step // size} {word}s"
