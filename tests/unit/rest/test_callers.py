from dataclasses import dataclass

import pytest

from app.core.errors import ClusterAuthorizationException, ThrottlingQuotaExceededException
from app.ops.metrics import OPERATIONS
from app.rest.callers.roles import ANYBODY, MAY_CALL, OPEN_TO_ALL, Caller, Role

SUPER = frozenset({"User:admin", "User:orders-root"})


def decide(*patterns: str, may_assert_super: bool = False) -> Caller:
    return Caller("sidecar", Role.DECIDE, patterns=patterns, may_assert_super=may_assert_super)


@pytest.mark.parametrize(
    ("patterns", "principal", "allowed"),
    [
        (("User:*",), "User:alice", True),
        (("User:*",), "User:", True),
        (("User:*",), "Group:alice", False),
        (("User:*",), "user:alice", False),
        (("User:*",), "User", False),
        (("User:orders-*",), "User:orders-1", True),
        (("User:orders-*",), "User:orders-", True),
        (("User:orders-*",), "User:orders", False),
        (("User:orders-*",), "User:alice", False),
        (("User:orders-*",), "User:*", False),
        (("User:alice",), "User:alice", True),
        (("User:alice",), "User:alice ", False),
        (("User:alice",), "User:Alice", False),
        (("User:alice", "User:b*"), "User:bob", True),
        (("User:caf\u00e9",), "User:cafe\u0301", False),
        ((), "User:alice", False),
    ],
)
def test_a_decide_caller_speaks_for_whom_its_patterns_name(
    patterns: tuple[str, ...], principal: str, *, allowed: bool
) -> None:
    assert decide(*patterns).may_assert(principal, SUPER) is allowed


def test_super_users_are_a_right_of_their_own_within_the_patterns() -> None:
    assert not decide("User:*").may_assert("User:admin", SUPER)
    assert not decide("User:admin").may_assert("User:admin", SUPER)
    assert decide("User:*", may_assert_super=True).may_assert("User:admin", SUPER)
    assert not decide("User:orders-*", may_assert_super=True).may_assert("User:admin", SUPER)
    assert decide("User:*").may_assert("User:admin", frozenset())


def test_an_admin_speaks_for_itself_only() -> None:
    admin = Caller("platform", Role.ADMIN, "User:admin")
    assert admin.may_assert("User:admin", SUPER)
    assert not admin.may_assert("User:alice", SUPER)
    assert not admin.may_assert("User:orders-root", SUPER)


def test_an_observer_speaks_for_nobody() -> None:
    assert not Caller("prometheus", Role.OBSERVE).may_assert("User:alice", SUPER)


def test_without_callers_anybody_speaks_for_everybody() -> None:
    assert ANYBODY.may_assert("User:admin", SUPER)


def test_refusals_tell_nothing_of_whom_was_asked_for() -> None:
    texts = set()
    for principal in ("User:admin", "Group:x", "User:nobody"):
        with pytest.raises(ClusterAuthorizationException) as refusal:
            decide("User:orders-*").check_principal(principal, SUPER)
        texts.add(refusal.value.message)
    assert texts == {"the caller `sidecar` may not speak for the principal of this context"}


def test_every_operation_is_decided_on_for_every_role() -> None:
    assert set(MAY_CALL) == set(Role)
    for role in Role:
        assert MAY_CALL[role] <= frozenset(OPERATIONS)
        assert MAY_CALL[role] >= OPEN_TO_ALL


def test_an_unknown_operation_is_nobodys() -> None:
    for role in (Role.DECIDE, Role.OBSERVE, Role.ADMIN):
        with pytest.raises(ClusterAuthorizationException):
            Caller("x", role).check_operation("brandNew")


@dataclass
class Quota:
    left: int

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


def test_a_quota_refuses_what_is_beyond_it() -> None:
    caller = Caller("sidecar", Role.DECIDE, patterns=("User:*",), limit=Quota(2))
    caller.check_operation("authorize")
    caller.check_operation("authorize")
    with pytest.raises(ThrottlingQuotaExceededException, match="requests_per_second"):
        caller.check_operation("authorize")


def test_what_is_not_for_the_role_takes_nothing_from_the_quota() -> None:
    quota = Quota(1)
    with pytest.raises(ClusterAuthorizationException):
        Caller("sidecar", Role.DECIDE, limit=quota).check_operation("createAcls")
    assert quota.left == 1
