"""Figures of a report, with names as an attacker would choose them."""

from datetime import UTC, datetime

from app.pipeline.report.figures import (
    AccessFigures,
    Bucket,
    DecisionFigures,
    Figures,
    Finding,
    Flip,
    GrowthFigures,
    Head,
    HygieneFigures,
    Timeline,
    WhatIfFigures,
)

AT = datetime(2026, 11, 22, 0, 14, 3, tzinfo=UTC)
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"' onmouseover='alert(1)",
    "a\u2028b\u2029c",
    "gnp.\u202egnihton",
    "User:a\u200bb",
    "<a href='https://evil.example/'>x</a>",
    "&lt;b&gt;",
    "%{x}",
    "@lost",
    "__proto__",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
)
LONG = tuple(f"User:{'service-account-of-a-department-' * 12}{end}" for end in ("one", "two"))
"""400 characters, and only the tail differs."""
TIMELINE = Timeline(60, [Bucket(1_763_770_000, 5, 2), Bucket(1_763_770_060, 0, 1)])


def access(names: tuple[str, ...] = ("orders", "payments")) -> AccessFigures:
    from app.pipeline.report.heat import OTHERS
    from app.pipeline.report.reach import EVERYONE, QUESTIONS

    reach = {each: [[1] * len(names) for _ in range(len(names) + 2)] for each in QUESTIONS}
    totals = {each.resource_type: [3] * len(names) for each in QUESTIONS}
    return AccessFigures([EVERYONE, *names, OTHERS], list(names), totals, reach, teams_in_others=4)


def head(cluster_id: str = "cluster") -> Head:
    return Head(cluster_id, 77, AT, 2, {"ACLs": 1_234})


def full(names: tuple[str, ...] = ("orders", "payments")) -> Figures:
    first = names[0]
    return Figures(
        head(first),
        access(names),
        GrowthFigures(TIMELINE, 10),
        HygieneFigures(
            {"UNUSED": 3, "VOID": 1},
            {name: {"UNUSED": 2} for name in names},
            [
                Finding("UNUSED", name, f"ALLOW READ on {name}", name, (f"kafka-acls --remove {name}",))
                for name in names
            ],
        ),
        WhatIfFigures(first, 77, 5, 1, dict.fromkeys(names, (4, 1)), [Flip(first, first, "ALLOWED", "DENIED", 5, AT)]),
        DecisionFigures(5, 3, dict.fromkeys(names, (2, 1)), dict.fromkeys(names, 1), TIMELINE, estimated=False),
    )
