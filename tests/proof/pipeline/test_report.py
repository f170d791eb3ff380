"""The report's figures, against plain counts by core."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from app.core.authorize import Authorization
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, AclPermissionType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import ClientAddress, parse_address
from app.pipeline.access.effective import EffectiveTables, masks_of, nodes_of
from app.pipeline.history.decision_log import uses_of
from app.pipeline.history.log_pieces import hours_of, logged_hours
from app.pipeline.history.records import changes_by_hour
from app.pipeline.history.schemas import DECISIONS, FINDINGS, FLIPS, RECORDS
from app.pipeline.report import heat
from app.pipeline.report.figures import AccessFigures, Question
from app.pipeline.report.heat import OTHERS
from app.pipeline.report.reach import EVERYONE, QUESTIONS, open_by_default, reach, read_teams
from app.pipeline.report.totals import decision_figures, growth_figures, hygiene_figures, what_if_figures
from app.pipeline.spark.errors import PipelineError
from tests.images import image_of
from tests.proof.pipeline.random_stores import MORE_ADDRESSES, MORE_HOSTS, acl_frame, random_acls, resource_frame

AT = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
NAMES = ("a", "ab", "abc", "a.x", "a-y", "ab_z", "ab.", ".ab", "😀", "😀.é", "*b", "b")
Reached = dict[tuple[str, str, str], set[str]]


def everywhere() -> list[ClientAddress]:
    """An address of every kind of place that the hosts in use tell apart, both sides of their edges among them."""
    texts = {*MORE_ADDRESSES, "203.0.113.9", "2001:db8::77", "fe80::77%z9"}
    for host in MORE_HOSTS:
        texts.add(host)
        try:
            network = ip_network(host.replace("/08", "/8"), strict=False)
        except ValueError:
            continue
        for each in (network[0], network[-1]):
            texts |= {str(each + step) for step in (-1, 0, 1) if 0 <= int(each) + step < 1 << each.max_prefixlen}
    texts |= {f"{text}%z9" for text in texts if ":" in text and "/" not in text and "%" not in text}
    return [address for text in sorted(texts) if (address := parsed(text)) is not None]


def parsed(text: str) -> ClientAddress | None:
    try:
        return parse_address(text)
    except InvalidRequestException:
        return None


def team_of(principal: str) -> str:
    if principal == WILDCARD_PRINCIPAL:
        return EVERYONE
    found = re.match(r"[^:]*:([^\-._@]+)", principal)
    return found[1] if found else principal


def prefix_of(name: str) -> str:
    found = re.match(r"([^.\-_]+)[.\-_]", name)
    return found[1] if found else name


def by_core(acls: Sequence[StandardAcl], *, allow_everyone: bool) -> Reached:
    """(team, type, name) -> operations that anybody of the team can use there, as core decides at every address."""
    config = AuthorizerConfig(allow_everyone_if_no_acl_found=allow_everyone)
    # What User:* is given is not theirs; what it is denied is denied to them.
    own = [each for each in acls if (each.binding.principal, each.binding.permission_type) != _GIVEN_TO_ALL]
    whole, closed = image_of(acls, config), image_of(own)
    reached: Reached = defaultdict(set)
    for principal in {each.binding.principal for each in acls} | {WILDCARD_PRINCIPAL}:
        image = whole if principal == WILDCARD_PRINCIPAL else closed
        asking = "User:somebody-without-an-acl" if principal == WILDCARD_PRINCIPAL else principal
        for address in everywhere():
            caller = Authorization(image, asking, address)
            for question in QUESTIONS:
                kind, operation = ResourceType[question.resource_type], AclOperation[question.operation]
                for name in NAMES:
                    if caller.decide(operation, kind, name).allowed:
                        reached[team_of(principal), kind.name, name].add(operation.name)
    return reached


_GIVEN_TO_ALL = (WILDCARD_PRINCIPAL, AclPermissionType.ALLOW)


def tables_of(spark: SparkSession, acls: Sequence[StandardAcl]) -> EffectiveTables:
    resources = resource_frame(spark, NAMES)
    masks = masks_of(acl_frame(spark, acls)).cache()
    return EffectiveTables(masks, nodes_of(resources, masks).cache(), resources, {})


@pytest.mark.parametrize(("seed", "allow_everyone", "room"), [(3, False, (30, 40)), (4, True, (3, 4))])
def test_the_heat_map_counts_what_core_allows(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    room: tuple[int, int],
    *,
    allow_everyone: bool,
) -> None:
    monkeypatch.setattr(heat, "MOST_TEAMS", room[0])
    monkeypatch.setattr(heat, "MOST_PREFIXES", room[1])
    acls = random_acls(seed, per_type=12 if allow_everyone else 60)
    tables = tables_of(spark, acls)
    reached = reach(tables, None, allow_everyone=allow_everyone).cache()
    expected = by_core(acls, allow_everyone=allow_everyone)
    found: Reached = defaultdict(set)
    for row in reached.collect():
        place = (row["team"], row["resource_type"], row["resource_name"])
        assert place not in found
        found[place] = {each.name for each in AclOperation if row["bits"] >> each & 1}
    assert found == expected
    opened = open_by_default(tables).count() if allow_everyone else 0
    figures = heat.heat_figures(reached, tables.resources, open_by_default=opened)
    assert len(figures.teams) <= room[0]
    assert len(figures.prefixes) <= room[1]
    assert (figures.teams_in_others > 0) == (OTHERS in figures.teams) == allow_everyone
    assert counts_of(figures) == counted(figures, expected)
    assert opened == figures.open_by_default


def counts_of(figures: AccessFigures) -> Counter[tuple[Question, str, str]]:
    return +Counter(
        {
            (question, team, prefix): number
            for question, grid in figures.reach.items()
            for team, line in zip(figures.teams, grid, strict=True)
            for prefix, number in zip(figures.prefixes, line, strict=True)
        }
    )


def counted(figures: AccessFigures, expected: Reached) -> Counter[tuple[Question, str, str]]:
    cells: dict[tuple[Question, str, str], set[str]] = defaultdict(set)
    for (team, kind, name), operations in expected.items():
        row = team if team in figures.teams else OTHERS
        column = prefix_of(name) if prefix_of(name) in figures.prefixes else OTHERS
        for operation in operations:
            cells[Question(operation, kind), row, column].add(name)
    return Counter({cell: len(names) for cell, names in cells.items()})


def test_teams_come_from_a_file_where_it_names_them(spark: SparkSession, tmp_path: Path) -> None:
    teams = tmp_path / "teams.csv"
    teams.write_text('principal,team\nUser:alice,"red, and ""blue"""\n"User:CN=a,OU=b",red\n', encoding="utf-8")
    rows = {row["principal"]: row["team"] for row in read_teams(spark, str(teams)).collect()}
    assert rows == {"User:alice": 'red, and "blue"', "User:CN=a,OU=b": "red"}
    for text, fault in (
        ("principal,squad\nUser:a,b\n", "has no column `team`"),
        ("principal,team\nUser:a,b\nUser:a,c\n", "more than one team for `User:a`"),
    ):
        teams.write_text(text, encoding="utf-8")
        with pytest.raises(PipelineError, match=re.escape(fault)):
            read_teams(spark, str(teams))
    with pytest.raises(PipelineError, match="can't read the teams"):
        read_teams(spark, str(tmp_path / "absent.csv"))


def test_growth_and_decisions_are_counted_over_time(spark: SparkSession) -> None:
    draw = Random(1)
    kinds = ("AccessControlEntryRecord", "AccessControlEntryRecord", "RemoveAccessControlEntryRecord", "ConfigRecord")
    offsets = range(1, 60)
    records = [(at, draw.choice(kinds), AT + timedelta(seconds=30 * at + draw.randint(0, 29))) for at in offsets]
    # Who is created twice has other terms since.
    again = {at for at, kind, _ in records if kind == kinds[0] and at % 3 == 0}
    first = next(at for at, kind, _ in records if kind == kinds[0] and at not in again)
    again -= set(range(first))
    ids = {at: str(first if at in again else at) for at in offsets}
    rows = [(at, at, kind, ids[at], *[None] * 9, time, "x", b"", *[None] * 3) for at, kind, time in records]
    frame = spark.createDataFrame(rows, RECORDS)
    growth = growth_figures(changes_by_hour(frame.where("offset <= 50")), lambda: frame, 100, 50)
    assert growth is not None
    step = growth.timeline.step
    bucket = {at: int(time.timestamp()) // step * step for at, _, time in records}
    created = Counter(bucket[at] for at, kind, _ in records if at <= 50 and kind == kinds[0] and at not in again)
    removed = Counter(bucket[at] for at, kind, _ in records if at <= 50 and kind == kinds[2])
    assert Counter({each.start: each.first for each in growth.timeline.buckets if each.first}) == created
    assert Counter({each.start: each.second for each in growth.timeline.buckets if each.second}) == removed
    assert growth.before == 100 - sum(created.values()) + sum(removed.values())
    starts = [each.start for each in growth.timeline.buckets]
    assert starts == list(range(starts[0], starts[-1] + 1, step))

    who = [f"User:{number}" for number in range(20)]
    asked = [
        (draw.choice(who), draw.choice(("ALLOWED", "ALLOWED", "DENIED")), draw.choice((1.0, 0.5))) for _ in range(300)
    ]
    log = [
        (
            AT + timedelta(seconds=at),
            "e",
            1,
            name,
            "10.0.0.1",
            *[None] * 7,
            "READ",
            "TOPIC",
            "t",
            result,
            "r",
            None,
            share,
            None,
        )
        for at, (name, result, share) in enumerate(asked)
    ]
    logged = spark.createDataFrame(log, DECISIONS)
    decisions = decision_figures(logged_hours(hours_of(logged)), uses_of(logged), lambda: logged)
    assert decisions is not None
    weights: Counter[tuple[str, str]] = Counter()
    for name, result, share in asked:
        weights[name, result] += int(1 / share)
    assert decisions.allowed == sum(n for (_, result), n in weights.items() if result == "ALLOWED")
    assert decisions.denied == sum(n for (_, result), n in weights.items() if result == "DENIED")
    busiest = sorted(who, key=lambda each: (-weights[each, "ALLOWED"] - weights[each, "DENIED"], each))[:15]
    assert dict(decisions.principals) == {each: (weights[each, "ALLOWED"], weights[each, "DENIED"]) for each in busiest}
    assert list(decisions.principals) == busiest
    assert decisions.estimated
    assert decision_figures([], logged, lambda: logged) is None
    assert growth_figures([], lambda: frame, 0, 50) is None


def test_a_long_history_is_drawn_from_its_hours_alone(spark: SparkSession) -> None:
    draw, kinds = Random(5), ("AccessControlEntryRecord", "RemoveAccessControlEntryRecord")
    times = [AT + timedelta(hours=3 * at, seconds=draw.randint(0, 3_599)) for at in range(80)]
    rows = [
        (at, at, draw.choice(kinds), str(at), *[None] * 9, time, "x", b"", *[None] * 3) for at, time in enumerate(times)
    ]
    records = spark.createDataFrame(rows, RECORDS)
    nothing = records.limit(0)
    growth = growth_figures(changes_by_hour(records), lambda: nothing, 100, 99)
    assert growth is not None
    step, buckets = growth.timeline.step, growth.timeline.buckets
    assert sum(each.first for each in buckets) == sum(row[2] == kinds[0] for row in rows)
    starts = Counter(int(time.timestamp()) // step * step for time in times)
    assert starts == {each.start: each.first + each.second for each in buckets if each.first + each.second}


def test_findings_and_flips_are_counted_by_principal(spark: SparkSession) -> None:
    draw = Random(2)
    who, kinds = [f"User:{number:02}" for number in range(20)], ("UNUSED", "VOID", "DETACHED")
    found = [(draw.choice(kinds), draw.choice(who), draw.randint(0, 9)) for _ in range(200)]
    rows = [
        (kind, f"{at:03}", "TOPIC", "t", "LITERAL", name, "*", "READ", "ALLOW", "why", None, covered, None, ["mend"])
        for at, (kind, name, covered) in enumerate(found)
    ]
    hygiene = hygiene_figures(spark.createDataFrame(rows, FINDINGS))
    assert hygiene.kinds == Counter(kind for kind, _, _ in found)
    totals = Counter(name for _, name, _ in found)
    assert list(hygiene.principals) == sorted(who, key=lambda name: (-totals[name], name))[:15]
    for name, counts in hygiene.principals.items():
        assert counts == Counter(kind for kind, each, _ in found if each == name)
    assert Counter(each.kind for each in hygiene.worst) == dict.fromkeys(kinds, 5)

    turned = [
        (draw.choice(who), draw.choice((("ALLOWED", "DENIED"), ("DENIED", "ALLOWED"))), at) for at in range(1, 80)
    ]
    rows_of_flips = [
        (name, "TOPIC", f"t{number}", "READ", *sides, number, ["h"], AT, AT, None, None)
        for name, sides, number in turned
    ]
    what_if = what_if_figures("x", 7, spark.createDataFrame(rows_of_flips, FLIPS))
    assert what_if.lost == sum(number for _, (_, after), number in turned if after == "DENIED")
    assert what_if.opened == sum(number for _, (_, after), number in turned if after == "ALLOWED")
    sums: dict[str, list[int]] = {name: [0, 0] for name in who}
    for name, (_, after), number in turned:
        sums[name][after == "ALLOWED"] += number
    busiest = sorted(sums, key=lambda name: (-sum(sums[name]), name))[:15]
    assert list(what_if.principals) == busiest
    assert [list(each) for each in what_if.principals.values()] == [sums[name] for name in busiest]
    assert [each.decisions for each in what_if.worst] == list(range(79, 59, -1))
    nothing = what_if_figures("x", 7, spark.createDataFrame([], FLIPS))
    assert (nothing.lost, nothing.opened) == (0, 0)
