"""Groups of a principal: ACLs of `Group:<name>` apply to it too.

Kafka has no groups: there `Group:x` is a principal like any other, and so it is here where a context names no groups.
"""

from collections.abc import Iterable

from app.core.kafka.codes import WILDCARD_PRINCIPAL

GROUP_PREFIX = "Group:"
"""The prefix of the principal in a group's ACLs."""
MAX_GROUPS = 200
MAX_GROUP_NAME = 255
"""Characters."""


def is_group(principal: str) -> bool:
    """Whether ACLs of this principal apply to the members of a group."""
    return principal.startswith(GROUP_PREFIX)


def exclude_groups(super_users: Iterable[str]) -> frozenset[str]:
    """Those whose ACLs have no effect on anybody.

    A super user `Group:g` is a principal of that name: the ACLs of `Group:g` still apply to the members of the group,
    who are no super users.
    """
    return frozenset(each for each in super_users if not is_group(each))


class Groups:
    """A set of groups, as the principals that their ACLs name, in order. Its hash is kept: there may be 200."""

    __slots__ = ("_hash", "principals")

    def __init__(self, names: Iterable[str]) -> None:
        self.principals = tuple(sorted({GROUP_PREFIX + name for name in names}))
        self._hash = hash(self.principals)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each[len(GROUP_PREFIX) :] for each in self.principals)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Groups) and self.principals == other.principals)


def groups_of(names: Iterable[str] | None) -> Groups | None:
    """None where there are none."""
    found = Groups(names or ())
    return found if found.principals else None


def speaking_of(principal: str, groups: Groups | None) -> tuple[str, ...]:
    """All principals whose ACLs apply to a caller: itself, its groups in the order of their names, `User:*`."""
    return tuple(dict.fromkeys((principal, *(() if groups is None else groups.principals), WILDCARD_PRINCIPAL)))
