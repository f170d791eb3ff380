"""Proposals for principals (`core.access.proposal`), from what they used; and their proof, by asking core again."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf

from app.core.access.proposal import Proposal, Question, propose
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation, AclPermissionType, ResourceType
from app.core.readable import readable
from app.core.verdicts import AuthorizationResult
from app.pipeline.access.changes import new_id
from app.pipeline.access.use import ASKED, answered, crowds_of, is_forbidden, questions_to_settle
from app.pipeline.history.schemas import ACLS, BINDING_FIELDS, NO_TERMS, RESOURCES
from app.pipeline.spark.errors import PipelineError

_MOST_ROWS = 500_000
"""The most rows that are brought to the driver; they have hosts only where these matter."""
_EXAMPLES = 5


class UnprovenError(PipelineError):
    """Core, asked again, disagrees with what was worked out for a proposal."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class Whose:
    """The principals asked for; a team's have a common prefix."""

    text: str
    is_team: bool

    def of(self, column: str) -> Column:
        named = sf.col(column).startswith(self.text) if self.is_team else sf.col(column) == self.text
        # INVARIANT: nothing is proposed for `User:*`, even if a caller has this name: it would be for everybody.
        return named & (sf.col(column) != WILDCARD_PRINCIPAL)

    def __str__(self) -> str:
        return f"{readable(self.text)}..." if self.is_team else readable(self.text)


@dataclass(frozen=True)
class Proposals:
    """What is proposed, by principal. `today` are the ALLOWs that a principal has, `denies` the DENYs of all of them.

    `forbidden` counts the used questions that a DENY forbids now.
    """

    proposals: dict[str, Proposal]
    today: dict[str, set[AclBinding]]
    denies: list[AclBinding]
    forbidden: Counter[str]

    @property
    def acls(self) -> list[AclBinding]:
        return [acl for each in self.proposals.values() for acl in each.acls]

    @property
    def dropped(self) -> list[AclBinding]:
        proposed = set(self.acls)
        return sorted((acl for acls in self.today.values() for acl in acls if acl not in proposed), key=sort_key)


@dataclass(frozen=True, slots=True)
class Evidence:
    """`asked` (`use.asked_of`), the present ACLs, and the resources that exist (RESOURCES)."""

    whose: Whose
    asked: DataFrame
    acls: DataFrame
    existing: DataFrame
    buckets: int

    @property
    def denies(self) -> DataFrame:
        theirs = self.whose.of("principal") | (sf.col("principal") == WILDCARD_PRINCIPAL)
        return self.acls.where(theirs & _has(AclPermissionType.DENY)).select(ACLS.fieldNames())


def proposals_of(evidence: Evidence, few_hosts: int) -> Proposals:
    """Hosts are named for principals that come from at most `few_hosts`. Raises PipelineError if it is too much."""
    whose, forbidden, settled = evidence.whose, Counter[str](), evidence.asked
    if not evidence.denies.isEmpty():
        judged = answered(evidence.denies, evidence.asked, evidence.buckets).persist()
        refused = judged.where(is_forbidden() & (sf.col("allowed") == 1)).groupBy("principal").count()
        forbidden.update({row["principal"]: row["count"] for row in refused.collect()})
        settled = judged.where(~is_forbidden())
    rows = _few(questions_to_settle(settled, few_hosts), whose)
    used_names = evidence.asked.sparkSession.createDataFrame(
        {(row["resource_type"], row["resource_name"]) for row in rows}, RESOURCES
    )
    crowded = crowds_of(used_names, evidence.existing).collect()
    crowds = {(ResourceType[kind], prefix): count for kind, prefix, count in crowded}
    sides: defaultdict[str, tuple[list[Question], list[Question]]] = defaultdict(lambda: ([], []))
    exact = {row["principal"] for row in rows if row["few"]}
    for row in rows:
        sides[row["principal"]][not row["allowed"]].append(_question(row))
    today: defaultdict[str, set[AclBinding]] = defaultdict(set)
    own = evidence.acls.where(whose.of("principal"))
    for acl in _bindings(_few(own.where(_has(AclPermissionType.ALLOW)), whose)):
        today[acl.principal].add(acl)
    proposals = {
        each: propose(each, used, denied, crowds, exact_hosts=each in exact)
        for each, (used, denied) in sorted(sides.items())
    }
    denies = sorted(_bindings(_few(own.where(_has(AclPermissionType.DENY)), whose)), key=sort_key)
    return Proposals(proposals, today, denies, forbidden)


def prove(evidence: Evidence, found: Proposals) -> None:
    rows_of = [(str(new_id(acl)), *acl.words, *NO_TERMS) for acl in found.acls]
    proposed = evidence.asked.sparkSession.createDataFrame(rows_of, ACLS)
    said = answered(proposed.unionByName(evidence.denies), evidence.asked, evidence.buckets)
    allowed = sf.col("result") == AuthorizationResult.ALLOWED.value
    wrong = said.where((sf.col("allowed") == 1) != allowed).where(~is_forbidden())
    rows = wrong.select(*ASKED, "allowed").limit(_MOST_ROWS).collect()
    left_out = {(name, question) for name, each in found.proposals.items() for question in each.left_out}
    bad = [row for row in rows if not (row["allowed"] and _names_of(row) & left_out)]
    if len(rows) == _MOST_ROWS or bad:
        texts = [f"{_words(row)} is {'denied' if row['allowed'] else 'allowed'}" for row in bad[:_EXAMPLES]]
        raise UnprovenError(
            f"nothing was written: replayed with the proposal, {len(bad):,} questions are decided otherwise than in "
            f"the log, such as: {'; '.join(texts)}; this is a bug in Klamm, please report it"
        )


def _names_of(row: Row) -> set[tuple[str, Question]]:
    question = _question(row)
    return {(row["principal"], question), (row["principal"], question._replace(host=WILDCARD))}


def _words(row: Row) -> str:
    name, principal = readable(row["resource_name"]), readable(row["principal"])
    return f"{row['operation']} on {row['resource_type']} {name} for {principal}"


def _question(row: Row) -> Question:
    return Question(
        ResourceType[row["resource_type"]], row["resource_name"], AclOperation[row["operation"]], row["host"]
    )


def _bindings(rows: Iterable[Row]) -> Iterator[AclBinding]:
    return (AclBinding.from_words(row[name] for name in BINDING_FIELDS) for row in rows)


def _has(permission: AclPermissionType) -> Column:
    return sf.col("permission_type") == permission.name


def _few(frame: DataFrame, whose: Whose) -> list[Row]:
    rows = frame.limit(_MOST_ROWS + 1).collect()
    if len(rows) > _MOST_ROWS:
        raise PipelineError(
            f"{whose} has more than {_MOST_ROWS:,} questions or ACLs, too many for one proposal; name a narrower "
            "--team, or a shorter period"
        )
    return rows
