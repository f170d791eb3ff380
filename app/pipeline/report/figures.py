"""The numbers that the page shows: plain values, small whatever the store holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Question:
    operation: str
    resource_type: str


@dataclass(frozen=True, slots=True)
class AccessFigures:
    """Who reaches what. `reach[question][row][column]` is how many resources of the column anybody of the row's team
    can use so from at least one address; `totals[type][column]` is how many there are.
    """

    teams: Sequence[str]
    prefixes: Sequence[str]
    totals: Mapping[str, Sequence[int]]
    reach: Mapping[Question, Sequence[Sequence[int]]]
    teams_in_others: int = 0
    prefixes_in_others: int = 0
    open_by_default: int = 0
    """Resources without any ACL that allow.everyone.if.no.acl.found opens to everybody."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A stretch of time that begins at `start` (seconds since 1970), and two counts of what happened in it."""

    start: int
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """Buckets of `step` seconds, none left out between the first and the last."""

    step: int
    buckets: Sequence[Bucket]


@dataclass(frozen=True, slots=True)
class GrowthFigures:
    timeline: Timeline
    before: int


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    principal: str
    acl: str
    why: str
    mend: Sequence[str]


@dataclass(frozen=True, slots=True)
class HygieneFigures:
    """`principals` maps the worst ones to how many findings of each kind they have."""

    kinds: Mapping[str, int]
    principals: Mapping[str, Mapping[str, int]]
    worst: Sequence[Finding]
    left_out: str = ""
    """What could not be searched for, and why."""


@dataclass(frozen=True, slots=True)
class Flip:
    principal: str
    action: str
    before: str
    after: str
    decisions: int
    last_time: datetime


@dataclass(frozen=True, slots=True)
class WhatIfFigures:
    """The decisions that a change would deny (`lost`) and allow (`opened`)."""

    name: str
    offset: int
    lost: int
    opened: int
    principals: Mapping[str, tuple[int, int]]
    worst: Sequence[Flip]


@dataclass(frozen=True, slots=True)
class DecisionFigures:
    """`principals` maps the busiest to (allowed, denied); a bucket has allowed first, then denied."""

    allowed: float
    denied: float
    principals: Mapping[str, tuple[float, float]]
    denied_most: Mapping[str, float]
    timeline: Timeline
    estimated: bool
    """Whether only a share of the requests was logged, so that the numbers are estimates."""


@dataclass(frozen=True, slots=True)
class Head:
    cluster_id: str
    offset: int
    as_of: datetime
    super_users: int
    counts: Mapping[str, int]
    """Label -> number, for the tiles at the top."""


@dataclass(frozen=True, slots=True)
class Figures:
    """All that the page shows. What is None did not exist, and the page says which job makes it."""

    head: Head
    access: AccessFigures
    growth: GrowthFigures | None = None
    hygiene: HygieneFigures | None = None
    what_if: WhatIfFigures | None = None
    decisions: DecisionFigures | None = None
    asked_for: Mapping[str, str] = field(default_factory=dict)
    """Why a part is None, if not because its job never ran."""
