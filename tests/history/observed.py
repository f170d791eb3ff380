"""What clients have seen of a store: each reply with when it was asked for and when it came.

Times are seconds of one monotonic clock. `replica` names one life of one process: a process that was started again is
another replica.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.token import Token

Question = tuple[AclOperation, ResourceType, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    replica: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Call):
    token: Token
    principal: str
    host: str
    questions: tuple[Question, ...]
    allowed: tuple[bool, ...]
    at_least: Token | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation(Call):
    """`token` and `acls` are None while the outcome is unknown; each ACL comes with whether this call made it."""

    bindings: tuple[AclBinding, ...]
    token: Token | None = None
    acls: tuple[tuple[UUID, bool], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion(Call):
    """`token` and `ids` are None while the outcome is unknown."""

    acl_filter: AclBindingFilter
    token: Token | None = None
    ids: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Call):
    """The service promised that nothing of it was written."""

    bindings: tuple[AclBinding, ...]


@dataclass
class Observed:
    """All of it, in any order. Writers name an ACL once: what one has removed, none makes again."""

    decisions: list[Decision] = field(default_factory=list)
    creations: list[Creation] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def add(self, calls: Sequence[Call]) -> None:
        for call in calls:
            match call:
                case Decision():
                    self.decisions.append(call)
                case Creation():
                    self.creations.append(call)
                case Deletion():
                    self.deletions.append(call)
                case Refusal():
                    self.refusals.append(call)
                case _:
                    raise TypeError(call)
