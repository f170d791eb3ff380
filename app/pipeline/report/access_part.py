"""Which team reaches what: the heat map."""

from collections.abc import Iterable, Sequence

from app.pipeline.report import charts
from app.pipeline.report.figures import AccessFigures, Question
from app.pipeline.report.grouping import EVERYONE, OTHERS
from app.pipeline.report.part import NUMBERS, Part
from app.pipeline.report.tables import folded, table
from app.pipeline.report.text import escaped, shortened, visible

_TYPES = {"TOPIC": "topics", "GROUP": "groups", "TRANSACTIONAL_ID": "transactional ids"}


def team_label(key: str, others: int) -> str:
    """The name of a row of the heat map."""
    return {EVERYONE: "everyone (User:*)", OTHERS: f"others ({others:,} teams)"}.get(key, key)


def asked(question: Question) -> str:
    """`READ topics`."""
    return f"{question.operation} {_TYPES[question.resource_type]}"


def access_part(access: AccessFigures) -> Part:
    """The heat map, which asks about READ of topics first."""
    if not access.reach or not access.prefixes:
        reading = (
            "No topic, group or transactional id is known. Run effective with --resources FILE, or ingest decisions."
        )
        return Part("access", "Who can reach what", reading)
    teams = [team_label(key, access.teams_in_others) for key in access.teams]
    prefixes = [f"others ({access.prefixes_in_others:,})" if key == OTHERS else key for key in access.prefixes]
    chart = charts.heat_map(access, teams, prefixes)
    chart["titles"] = {charts.key_of(each): _reach_title(access, each, teams) for each in access.reach}
    first = next(iter(access.reach))
    heads = ["team", "prefix", *(f"{asked(each)}, of" for each in access.reach)]
    return Part(
        "access",
        chart["titles"][charts.key_of(first)],
        "A cell is one team and the resources whose names begin alike; the brighter, the more of them somebody of the"
        " team can use so from at least one address. Every DENY has been taken off. Blank: none. What User:* may do"
        " counts in the row everyone only." + _squeezed(access),
        chart,
        _access_controls(list(access.reach)),
        folded(NUMBERS, table("Resources in reach", heads, _reach_rows(access, teams, prefixes))),
    )


def _squeezed(access: AccessFigures) -> str:
    notes = []
    if access.teams_in_others or access.prefixes_in_others:
        notes.append(
            f" {access.teams_in_others:,} teams and {access.prefixes_in_others:,} prefixes with the least are summed up"
            " as others."
        )
    if access.open_by_default:
        notes.append(
            f" {access.open_by_default:,} resources have no ACL: allow.everyone.if.no.acl.found opens them to everyone."
        )
    return "".join(notes)


def _reach_title(access: AccessFigures, question: Question, teams: Sequence[str]) -> str:
    total = sum(access.totals[question.resource_type])
    sums = [sum(line) for line in access.reach[question]]
    named = [(n, team) for key, n, team in zip(access.teams, sums, teams, strict=True) if key not in (EVERYONE, OTHERS)]
    most, team = max(named, key=lambda each: each[0], default=(0, ""))
    what = f"{question.operation.lower()} {most:,} of {total:,} {_TYPES[question.resource_type]}"
    reach = f"{shortened(visible(team), 40)} can {what}, more than any other team" if most else ""
    everybody = f"everyone can {question.operation.lower()} {sums[0]:,}" if sums and sums[0] else ""
    both = "; ".join(each for each in (reach, everybody) if each)
    return both or f"Nobody can {asked(question)}"


def _reach_rows(
    access: AccessFigures, teams: Sequence[str], prefixes: Sequence[str]
) -> Iterable[Sequence[str | int | float]]:
    for at, team in enumerate(teams):
        for column, prefix in enumerate(prefixes):
            numbers = [grid[at][column] for grid in access.reach.values()]
            if any(numbers):
                totals = [access.totals[each.resource_type][column] for each in access.reach]
                yield [team, prefix, *(f"{n:,} of {of:,}" for n, of in zip(numbers, totals, strict=True))]


def _access_controls(questions: Sequence[Question]) -> str:
    options = "".join(
        f'<option value="{escaped(charts.key_of(each))}">{escaped(asked(each))}</option>' for each in questions
    )
    return (
        f'<label>Who can <select id="access-question">{options}</select></label>'
        '<fieldset><legend>Show</legend><label><input type="radio" name="access-measure" value="number" checked>'
        ' number of resources</label><label><input type="radio" name="access-measure" value="share">'
        " share of the prefix</label></fieldset>"
    )
