"""What plotly draws: each chart's traces and layout as plain values, colours by role.

A role (`@lost`) becomes a colour in the page, once for light and once for dark. Labels are made safe for plotly here.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from app.pipeline.report.figures import AccessFigures, Question, Timeline
from app.pipeline.report.text import distinct_labels, plain_label

Spec = dict[str, Any]

_SHORT = 15
_CIVIDIS = [[0, "#31446b"], [0.25, "#666970"], [0.5, "#958f78"], [0.75, "#cbba69"], [1, "#ffea46"]]
"""Made for all kinds of colour-blindness; without its darkest fifth, which can't be seen on dark pages."""
_MOST_WITH_NUMBERS = 26
"""Columns up to which there is room for a number in each cell."""
_ROW_PX, _CELL_PX = 26, 24


def _short_labels(names: Sequence[str]) -> list[str]:
    return [plain_label(name.removeprefix("User:"), _SHORT) for name in names]


def heat_map(figures: AccessFigures, teams: Sequence[str], prefixes: Sequence[str]) -> Spec:
    """One trace, and what it shows for each question by number and by share. Nothing to reach is left blank."""
    rows, columns = distinct_labels(teams, 26), distinct_labels(prefixes, 20)
    share_scale = {"zmin": 0, "zmax": 100, "colorbar": {"title": {"text": "% of the<br>prefix"}, "ticksuffix": " %"}}
    variants = {}
    for question, grid in figures.reach.items():
        totals = figures.totals[question.resource_type]
        share = [[100 * n / of if of else 0 for n, of in zip(line, totals, strict=True)] for line in grid]
        highest = max((n for line in grid for n in line), default=0)
        number_scale = {"zmin": 0, "zmax": highest or 1, "colorbar": {"title": {"text": "resources"}}}
        common = {"text": [[f"{n:,} of {of:,}" for n, of in zip(line, totals, strict=True)] for line in grid]}
        variants[f"{key_of(question)}|number"] = {**common, "z": _blank_zeros(grid), **number_scale}
        variants[f"{key_of(question)}|share"] = {**common, "z": _blank_zeros(share), **share_scale}
    trace = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "xgap": 1,
        "ygap": 1,
        "colorscale": _CIVIDIS,
        "hoverongaps": False,
        **({"texttemplate": "%{z:.0f}", "textfont": {"size": 10}} if len(columns) <= _MOST_WITH_NUMBERS else {}),
        "hovertemplate": "%{y} → %{x}<br>%{text} resources<extra></extra>",
    }
    layout = {
        "height": 150 + _CELL_PX * len(rows),
        "xaxis": {
            "type": "category",
            "side": "top",
            "tickangle": -45,
            "showgrid": False,
            "title": {"text": "resource prefix"},
        },
        "yaxis": {
            "type": "category",
            "autorange": "reversed",
            "showgrid": False,
            "title": {"text": "team"},
            **_ticks(rows),
        },
        "meta": {"short": {"yaxis": _short_labels(teams)}},
    }
    return {"data": [trace], "layout": layout, "variants": variants, "least": 300 + 22 * len(columns)}


def key_of(question: Question) -> str:
    return f"{question.operation} {question.resource_type}"


def _blank_zeros(grid: Sequence[Sequence[float]]) -> list[list[float | None]]:
    return [[round(n, 1) if n else None for n in line] for line in grid]


def _ticks(labels: Sequence[str]) -> Spec:
    return {"tickmode": "array", "tickvals": list(labels), "ticktext": list(labels)}


def bars(names: Sequence[str], series: Mapping[str, Sequence[float]], roles: Mapping[str, str], unit: str) -> Spec:
    """Horizontal bars, stacked; the longest on top as given. Series without a number anywhere are left out."""
    labels = distinct_labels(names)
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": plain_label(name),
            "y": labels,
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
        "xaxis": {"title": {"text": plain_label(unit)}, "rangemode": "tozero"},
        "yaxis": {"type": "category", "autorange": "reversed", **_ticks(labels)},
        "meta": {"short": {"yaxis": _short_labels(names)}},
    }
    return {"data": data, "layout": layout}


_PATTERNS = {"@lost": "/", "@denied": "/", "@removed": "/", "@kind2": "\\", "@kind3": "x", "@kind4": "."}
"""So that bars differ without colours as well."""


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
