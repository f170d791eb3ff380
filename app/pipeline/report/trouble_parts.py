"""What could be tidied up, and what a change would break."""

from app.pipeline.report import charts
from app.pipeline.report.figures import HygieneFigures, WhatIfFigures
from app.pipeline.report.part import NUMBERS, Part
from app.pipeline.report.tables import commands, folded, table
from app.pipeline.report.text import escaped, shortened, visible

KINDS = {
    "UNUSED": "decided nothing in the log, nor was it needed",
    "REDUNDANT": "another ACL already says it",
    "VOID": "has no effect: a DENY covers it, or no client can match it",
    "OVER_BROAD": "a small share of what it opens is used",
    "DETACHED": "names a resource that does not exist",
}
_KIND_ROLES = {kind: f"@kind{at}" for at, kind in enumerate(KINDS)}


def hygiene_parts(hygiene: HygieneFigures | None, why: str | None) -> list[Part]:
    """Findings by kind, and by principal."""
    left_out = f" {hygiene.left_out}." if hygiene is not None and hygiene.left_out else ""
    if hygiene is None or not hygiene.kinds:
        empty = (
            f"Hygiene found nothing to mend.{left_out}"
            if hygiene
            else why or "Not looked for yet. Run: klamm pipeline hygiene"
        )
        return [Part("hygiene", "What could be tidied up", empty)]
    total = sum(hygiene.kinds.values())
    most = max(hygiene.kinds, key=lambda kind: hygiene.kinds[kind])
    kinds = sorted(hygiene.kinds, key=lambda kind: -hygiene.kinds[kind])
    counted = [hygiene.kinds[kind] for kind in kinds]
    meaning = "; ".join(f"{kind}: {KINDS[kind]}" for kind in kinds if kind in KINDS)
    roles = {kind: _KIND_ROLES.get(kind, "@kind0") for kind in kinds}
    names = list(hygiene.principals)
    series = {kind: [hygiene.principals[name].get(kind, 0) for name in names] for kind in kinds}
    first = [(name, sum(hygiene.principals[name].values())) for name in names[:1]]
    worst = "".join(
        f"<h3>{escaped(each.kind)}: <bdi>{escaped(each.principal)}</bdi></h3><p><bdi>{escaped(each.acl)}</bdi><br>"
        f"{escaped(each.why)}</p>{commands(each.mend)}"
        for each in hygiene.worst
    )
    return [
        Part(
            "hygiene",
            f"{total:,} findings to tidy up, most of them {most} ({hygiene.kinds[most]:,})",
            f"A bar is a kind of finding, its length how many ACLs it concerns. {meaning}.{left_out}",
            charts.bars(kinds, {"findings": counted}, {"findings": "@kind0"}, "findings"),
            below=folded(NUMBERS, table("Findings", ["kind", "findings"], zip(kinds, counted, strict=True)))
            + folded("The widest findings of each kind, and the commands that mend them", worst),
        ),
        Part(
            "offenders",
            "; ".join(f"{shortened(visible(name), 40)} has {n:,} of the findings" for name, n in first),
            f"The {len(names)} principals with most findings; an ACL may have findings of several kinds.",
            charts.bars(names, series, roles, "findings"),
            below=folded(
                NUMBERS,
                table(
                    "Findings by principal",
                    ["principal", *kinds],
                    ([name, *(series[kind][at] for kind in kinds)] for at, name in enumerate(names)),
                ),
            ),
        ),
    ]


def flips_part(what_if: WhatIfFigures | None, why: str | None) -> Part:
    """Decisions that a candidate change would turn round."""
    if what_if is None:
        text = why or "No change was tried. Run: klamm pipeline what-if, with the change as a file"
        return Part("what-if", "What a change would break", text)
    name = shortened(visible(what_if.name), 40)
    if not what_if.lost and not what_if.opened:
        return Part(
            "what-if", f"The change {name} would flip no decision", "Every decision of the log stays as it was."
        )
    sides = ((what_if.lost, "deny {:,} decisions that were allowed"), (what_if.opened, "allow {:,} that were denied"))
    turned = " and ".join(text.format(number) for number, text in sides if number)
    names = list(what_if.principals)
    losses, gains = (
        [what_if.principals[each][0] for each in names],
        [what_if.principals[each][1] for each in names],
    )
    series = {"would be DENIED": losses, "would be ALLOWED": gains}
    rows = (
        (
            each.principal,
            each.action,
            f"{each.before} → {each.after}",
            each.decisions,
            f"{each.last_time:%Y-%m-%d %H:%M:%S}",
        )
        for each in what_if.worst
    )
    return Part(
        "what-if",
        f"The change {name} would {turned}",
        f"The principals most concerned (up to {len(names)}): how many of their decisions in the log would turn round."
        f" Tried on the ACLs at offset {what_if.offset:,}.",
        charts.bars(names, series, {"would be DENIED": "@lost", "would be ALLOWED": "@allowed"}, "decisions"),
        below=folded(
            NUMBERS,
            table("Flips by principal", ["principal", *series], zip(names, losses, gains, strict=True)),
        )
        + folded(
            "The most frequent flips",
            table("Flips", ["principal", "action", "turns", "decisions", "last seen (UTC)"], rows),
        ),
    )
