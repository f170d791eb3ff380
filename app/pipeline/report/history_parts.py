"""How the store came to be, and what was decided."""

from app.pipeline.report import charts
from app.pipeline.report.figures import DecisionFigures, GrowthFigures
from app.pipeline.report.part import NUMBERS, Part
from app.pipeline.report.tables import folded, table
from app.pipeline.report.text import shortened, visible


def growth_part(growth: GrowthFigures | None, why: str | None) -> Part:
    """How many ACLs there were, and what came and went."""
    if growth is None:
        return Part("growth", "How the store grew", why or "No change was exported. Run: klamm pipeline export")
    buckets = growth.timeline.buckets
    totals, at = [], growth.before
    for bucket in buckets:
        at += int(bucket.first - bucket.second)
        totals.append(at)
    created, removed = int(sum(b.first for b in buckets)), int(sum(b.second for b in buckets))
    chart = charts.over_time(
        growth.timeline, ("ACLs", totals), [("created", "@created", 1), ("removed", "@removed", -2)]
    )
    rows = [
        (charts.utc(bucket.start), int(bucket.first), int(bucket.second), total)
        for bucket, total in zip(buckets, totals, strict=True)
    ]
    step = charts.spoken(growth.timeline.step)
    return Part(
        "growth",
        f"From {growth.before:,} to {at:,} ACLs: {created:,} were created, {removed:,} removed",
        f"Above, how many ACLs there were; below, how many came (up) and went (down) per {step}.",
        chart,
        below=folded(
            NUMBERS,
            table(f"ACLs per {step}", ["from (UTC)", "created", "removed", "ACLs at its end"], rows),
        ),
    )


def decision_parts(decisions: DecisionFigures | None, why: str | None) -> list[Part]:
    """What was decided over time, and who asked most."""
    if decisions is None:
        text = why or "No decision was ingested. Set decision.log.path for the service, then run: klamm pipeline ingest"
        return [Part("decisions", "What was asked and denied", text)]
    total = decisions.allowed + decisions.denied
    about = "about " if decisions.estimated else ""
    buckets, step = decisions.timeline.buckets, charts.spoken(decisions.timeline.step)
    sums = [bucket.first + bucket.second for bucket in buckets]
    names = list(decisions.principals)
    allowed, denied = ([decisions.principals[name][at] for name in names] for at in (0, 1))
    note = " Only a share of the requests was logged; the numbers are estimates." if decisions.estimated else ""
    return [
        Part(
            "decisions",
            f"{about}{100 * decisions.denied / total:.1f} % of {total:,.0f} decisions were denied".capitalize(),
            f"Above, all decisions per {step}; below, those denied.{note}",
            charts.over_time(decisions.timeline, ("decisions", sums), [("denied", "@denied", 2)]),
            below=folded(
                NUMBERS,
                table(
                    f"Decisions per {step}",
                    ["from (UTC)", "allowed", "denied"],
                    ((charts.utc(bucket.start), bucket.first, bucket.second) for bucket in buckets),
                ),
            ),
        ),
        Part(
            "busiest",
            f"{shortened(visible(names[0]), 40)} asks most",
            f"The {len(names)} busiest principals of the log, and how many of their decisions were denied.{note}",
            charts.bars(
                names, {"allowed": allowed, "denied": denied}, {"allowed": "@allowed", "denied": "@denied"}, "decisions"
            ),
            below=folded(
                NUMBERS,
                table(
                    "Decisions by principal",
                    ["principal", "allowed", "denied"],
                    zip(names, allowed, denied, strict=True),
                ),
            )
            + folded(
                "Who is denied most",
                table("Denied by principal", ["principal", "denied"], decisions.denied_most.items()),
            ),
        ),
    ]
