"""The sections of the page: for all figures a title that says what they show, a chart, and the numbers as tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.core.readable import readable
from app.pipeline.report import charts
from app.pipeline.report.figures import (
    AccessFigures,
    DecisionFigures,
    Figures,
    Finding,
    GrowthFigures,
    HygieneFigures,
    Question,
    WhatIfFigures,
)
from app.pipeline.report.heat import OTHERS
from app.pipeline.report.reach import EVERYONE
from app.pipeline.report.text import shortened

KINDS = {
    "UNUSED": "decided nothing in the log, and was not needed",
    "REDUNDANT": "another ACL already covers it",
    "VOID": "has no effect: a DENY covers it, or no client can match it",
    "OVER_BROAD": "only a small share of what it allows is used",
    "DETACHED": "names a resource that does not exist",
}
_KIND_ROLES = {kind: f"@kind{at}" for at, kind in enumerate(KINDS)}
_TYPES = {"TOPIC": "topics", "GROUP": "groups", "TRANSACTIONAL_ID": "transactional ids"}

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class Table:
    caption: str
    heads: Sequence[str]
    rows: Iterable[Sequence[Cell]]
    summary: str = "The numbers as a table"


@dataclass(frozen=True, slots=True)
class Section:
    """`chart` is None if there is nothing to draw; `reading` then says why."""

    name: str
    link: str
    title: str
    reading: str
    chart: charts.Spec | None = None
    tables: Sequence[Table] = ()
    questions: Sequence[tuple[str, str]] = ()
    """The choices for the heat map: key and label."""
    findings: Sequence[Finding] = ()


def sections_of(figures: Figures) -> list[Section]:
    why = figures.asked_for
    return [
        _access(figures.access),
        _what_if(figures.what_if, why.get("what_if")),
        *_hygiene(figures.hygiene, why.get("hygiene")),
        _growth(figures.growth, why.get("growth")),
        *_decisions(figures.decisions, why.get("decisions")),
    ]


def _access(access: AccessFigures) -> Section:
    if not access.reach or not access.prefixes:
        reading = (
            "No topic, group or transactional id is known. Run effective with --resources FILE, or ingest decisions."
        )
        return Section("access", "Access", "Who can reach what", reading)
    labels = {EVERYONE: "everyone (User:*)", OTHERS: f"others ({access.teams_in_others:,} teams)"}
    teams = [labels.get(key) or readable(key) for key in access.teams]
    prefixes = [
        f"others ({access.prefixes_in_others:,})" if key == OTHERS else readable(key) for key in access.prefixes
    ]
    chart = charts.heat_map(access, teams, prefixes)
    chart["titles"] = {charts.key_of(each): _reach_title(access, each, teams) for each in access.reach}
    questions = [(charts.key_of(each), _asked(each)) for each in access.reach]
    heads = ["team", "prefix", *(f"{label}, of" for _, label in questions)]
    reading = (
        "A cell is one team and the resources that share a prefix; the stronger its colour, the more of them "
        "somebody in the team can use in this way from at least one address, with every DENY taken into account. "
        "Blank: none. Teams and prefixes without any are left out, and those with the most come first. Access of "
        "User:* is counted only in the row everyone. To see the principals and the resources of a cell, run klamm who "
        "or klamm what."
    )
    others = {"teams": access.teams_in_others, "prefixes": access.prefixes_in_others}
    if any(others.values()):
        told = " and ".join(f"{number:,} {what}" for what, number in others.items() if number)
        reading += f" The {told} with the least are summed up as others, shown apart and not coloured."
    if access.open_by_default:
        reading += (
            f" {access.open_by_default:,} resources have no ACL: allow.everyone.if.no.acl.found opens them to everyone."
        )
    table = Table("Resources in reach", heads, _reach_rows(access, teams, prefixes))
    return Section("access", "Access", chart["titles"][questions[0][0]], reading, chart, [table], questions)


def _asked(question: Question) -> str:
    return f"{question.operation} {_TYPES[question.resource_type]}"


def _reach_title(access: AccessFigures, question: Question, teams: Sequence[str]) -> str:
    total = sum(access.totals[question.resource_type])
    sums = [sum(line) for line in access.reach[question]]
    named = [(n, team) for key, n, team in zip(access.teams, sums, teams, strict=True) if key not in (EVERYONE, OTHERS)]
    most, team = max(named, key=lambda each: each[0], default=(0, ""))
    what = f"{question.operation.lower()} {most:,} of {total:,} {_TYPES[question.resource_type]}"
    reach = f"{shortened(team)} can {what}, more than any other team" if most else ""
    everybody = f"everyone can {question.operation.lower()} {sums[0]:,}" if sums and sums[0] else ""
    return "; ".join(each for each in (reach, everybody) if each) or f"Nobody can {_asked(question)}"


def _reach_rows(access: AccessFigures, teams: Sequence[str], prefixes: Sequence[str]) -> Iterable[Sequence[Cell]]:
    for at, team in enumerate(teams):
        for column, prefix in enumerate(prefixes):
            numbers = [grid[at][column] for grid in access.reach.values()]
            if any(numbers):
                totals = [access.totals[each.resource_type][column] for each in access.reach]
                yield [team, prefix, *(f"{n:,} of {of:,}" for n, of in zip(numbers, totals, strict=True))]


def _what_if(what_if: WhatIfFigures | None, why: str | None) -> Section:
    name: tuple[str, str] = ("what-if", "What if")
    if what_if is None:
        text = why or "No change was tried yet. Run: klamm pipeline what-if, with a file of the change"
        return Section(*name, "What a change would break", text)
    change = shortened(what_if.name)
    if not what_if.lost and not what_if.opened:
        return Section(
            *name, f"The change {change} would flip no decision", "Every decision of the log stays as it was."
        )
    sides = ((what_if.lost, "deny {:,} decisions that were allowed"), (what_if.opened, "allow {:,} that were denied"))
    turned = " and ".join(text.format(number) for number, text in sides if number)
    names = list(map(readable, what_if.principals))
    lost, opened = ([each[side] for each in what_if.principals.values()] for side in (0, 1))
    series = {"would be DENIED": lost, "would be ALLOWED": opened}
    flips = [
        (
            readable(each.principal),
            each.action,
            f"{each.before} → {each.after}",
            each.decisions,
            f"{each.last_time:%F %T}",
        )
        for each in what_if.worst
    ]
    return Section(
        *name,
        f"The change {change} would {turned}",
        f"The most affected principals (up to {len(names)}): how many of their decisions in the log would flip. "
        f"Tried on the ACLs at offset {what_if.offset:,}.",
        charts.bars(names, series, {"would be DENIED": "@lost", "would be ALLOWED": "@allowed"}, "decisions"),
        [
            Table("Flips by principal", ["principal", *series], list(zip(names, lost, opened, strict=True))),
            Table(
                "Flips",
                ["principal", "action", "turns", "decisions", "last seen (UTC)"],
                flips,
                "The most frequent flips",
            ),
        ],
    )


def _hygiene(hygiene: HygieneFigures | None, why: str | None) -> list[Section]:
    left_out = f" {hygiene.left_out}." if hygiene is not None and hygiene.left_out else ""
    if hygiene is None or not hygiene.kinds:
        empty = why or "Hygiene has not been run yet. Run: klamm pipeline hygiene"
        if hygiene is not None:
            empty = f"Hygiene found nothing to fix.{left_out}"
        return [Section("hygiene", "Hygiene", "What could be tidied up", empty)]
    kinds = sorted(hygiene.kinds, key=lambda kind: -hygiene.kinds[kind])
    counted = [hygiene.kinds[kind] for kind in kinds]
    meaning = "; ".join(f"{kind}: {KINDS[kind]}" for kind in kinds if kind in KINDS)
    roles = {kind: _KIND_ROLES.get(kind, "@kind0") for kind in kinds}
    names = list(map(readable, hygiene.principals))
    series = {kind: [counts.get(kind, 0) for counts in hygiene.principals.values()] for kind in kinds}
    most = sum(next(iter(hygiene.principals.values())).values())
    by_principal = list(zip(names, *series.values(), strict=True))
    return [
        Section(
            "hygiene",
            "Hygiene",
            f"{sum(counted):,} findings to tidy up, most of them {kinds[0]} ({counted[0]:,})",
            f"Each bar is a kind of finding; its length is the number of ACLs. {meaning}.{left_out}",
            charts.bars(kinds, {"findings": counted}, {"findings": "@kind0"}, "findings"),
            [Table("Findings", ["kind", "findings"], list(zip(kinds, counted, strict=True)))],
            findings=hygiene.worst,
        ),
        Section(
            "offenders",
            "By principal",
            f"{shortened(names[0])} has {most:,} of the findings",
            f"The {len(names)} principals with the most findings.",
            charts.bars(names, series, roles, "findings"),
            [Table("Findings by principal", ["principal", *kinds], by_principal)],
        ),
    ]


def _growth(growth: GrowthFigures | None, why: str | None) -> Section:
    if growth is None:
        text = why or "Nothing was exported yet. Run: klamm pipeline export"
        return Section("growth", "Growth", "How the store grew", text)
    buckets, step = growth.timeline.buckets, charts.in_words(growth.timeline.step)
    totals, total = [], growth.before
    for bucket in buckets:
        total += int(bucket.first - bucket.second)
        totals.append(total)
    created, removed = int(sum(b.first for b in buckets)), int(sum(b.second for b in buckets))
    bars = [("created", "@created", 1), ("removed", "@removed", -2)]
    rows = [
        (charts.utc(bucket.start), int(bucket.first), int(bucket.second), total)
        for bucket, total in zip(buckets, totals, strict=True)
    ]
    return Section(
        "growth",
        "Growth",
        f"From {growth.before:,} to {total:,} ACLs: {created:,} were created, {removed:,} removed",
        f"Above: the number of ACLs. Below: ACLs created (up) and removed (down) per {step}.",
        charts.over_time(growth.timeline, ("ACLs", totals), bars),
        [Table(f"ACLs per {step}", ["from (UTC)", "created", "removed", "ACLs at its end"], rows)],
    )


def _decisions(decisions: DecisionFigures | None, why: str | None) -> list[Section]:
    if decisions is None:
        text = (
            why
            or "No decision was ingested yet. Set decision.log.path for the service, then run: klamm pipeline ingest"
        )
        return [Section("decisions", "Decisions", "What was asked and denied", text)]
    total = decisions.allowed + decisions.denied
    about = "about " if decisions.estimated else ""
    note = " Only a share of the requests was logged; the numbers are estimates." if decisions.estimated else ""
    buckets, step = decisions.timeline.buckets, charts.in_words(decisions.timeline.step)
    sums = [bucket.first + bucket.second for bucket in buckets]
    names = list(map(readable, decisions.principals))
    allowed, denied = ([each[side] for each in decisions.principals.values()] for side in (0, 1))
    rows = [(charts.utc(bucket.start), bucket.first, bucket.second) for bucket in buckets]
    colours = {"allowed": "@allowed", "denied": "@denied"}
    return [
        Section(
            "decisions",
            "Decisions",
            f"{about}{100 * decisions.denied / total:.1f} % of {total:,.0f} decisions were denied".capitalize(),
            f"Above: all decisions per {step}. Below: those denied.{note}",
            charts.over_time(decisions.timeline, ("decisions", sums), [("denied", "@denied", 2)]),
            [Table(f"Decisions per {step}", ["from (UTC)", "allowed", "denied"], rows)],
        ),
        Section(
            "busiest",
            "Busiest",
            f"{shortened(names[0])} makes the most requests",
            f"The {len(names)} busiest principals of the log, and how many of their decisions were denied.{note}",
            charts.bars(names, {"allowed": allowed, "denied": denied}, colours, "decisions"),
            [
                Table(
                    "Decisions by principal",
                    ["principal", "allowed", "denied"],
                    list(zip(names, allowed, denied, strict=True)),
                ),
                Table(
                    "Denied by principal",
                    ["principal", "denied"],
                    [(readable(name), denied) for name, denied in decisions.denied_most.items()],
                    "Who is denied most",
                ),
            ],
        ),
    ]
