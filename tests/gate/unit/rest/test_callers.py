import re
from pathlib import Path

import pytest

from app.core.context import RequestContext, RoleGrant
from app.core.kafka.errors import ClusterAuthorizationException, ThrottlingQuotaExceededException
from app.core.kafka.hosts import parse_address
from app.metrics.declared import OPERATIONS
from app.rest.app import ROUTES
from app.rest.bodies.fields import AuthorizableRequestContext
from app.rest.callers.rate_limits import RateLimit
from app.rest.callers.roles import DECIDERS, FULL, Caller, Role, read, speak
from app.rest.http.edge import Routes
from app.rest.pages.routes import pages_routes

CALLERS_PAGE = Path(__file__).parents[4] / "docs" / "callers.md"
CLAIM = AuthorizableRequestContext("User:admin", "10.1.2.3")


def decide(*patterns: str, may_assert_super: bool = False) -> Caller:
    return Caller("sidecar", Role.DECIDE, patterns=patterns, may_assert_super=may_assert_super)


def test_a_decide_caller_speaks_for_whom_its_patterns_name(subtests: pytest.Subtests) -> None:
    for patterns, principal, allowed in [
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
    ]:
        with subtests.test(patterns=patterns, principal=principal, allowed=allowed):
            assert decide(*patterns).speaks_for(principal) is allowed


ANYBODY = Caller("anybody", Role.OPEN)


def context_of(caller: Caller, principal: str, client: str = "10.9.9.9") -> RequestContext:
    claim = AuthorizableRequestContext(principal, "10.1.2.3")
    return speak(caller, claim, {"type": "http", "client": (client, 7)})


def test_super_users_are_a_right_of_their_own_within_the_patterns() -> None:
    context = context_of(decide("User:*"), "User:admin")
    with pytest.raises(ClusterAuthorizationException, match="may not speak"):
        context.check_super_user()
    context_of(decide("User:*", may_assert_super=True), "User:admin").check_super_user()
    assert not decide("User:orders-*", may_assert_super=True).speaks_for("User:admin")


def test_an_admin_speaks_for_itself_only() -> None:
    admin = Caller("platform", Role.ADMIN, "User:admin")
    context_of(admin, "User:admin").check_super_user()
    for other in ("User:alice", "User:admin2", "User:Admin"):
        with pytest.raises(ClusterAuthorizationException):
            context_of(admin, other)


def test_an_observer_speaks_for_nobody() -> None:
    assert not Caller("prometheus", Role.OBSERVE).speaks_for("User:alice")


def test_without_callers_anybody_speaks_for_everybody() -> None:
    context_of(ANYBODY, "User:admin").check_super_user()


def test_refusals_tell_nothing_of_whom_was_asked_for() -> None:
    texts = set()
    for principal in ("User:admin", "Group:x", "User:nobody"):
        with pytest.raises(ClusterAuthorizationException) as refusal:
            context_of(decide("User:orders-*"), principal)
        texts.add(refusal.value.message)
    with pytest.raises(ClusterAuthorizationException) as refusal:
        context_of(decide("User:*"), "User:admin").check_super_user()
    texts.add(refusal.value.message)
    assert texts == {"the caller `sidecar` may not speak for the principal of this context"}


def test_an_admin_acts_from_its_socket_unless_it_may_assert_addresses() -> None:
    admin = Caller("platform", Role.ADMIN, "User:admin")
    gateway = Caller("gateway", Role.ADMIN, "User:admin", may_assert_address=True)
    assert context_of(admin, "User:admin").client_address.text == "10.9.9.9"
    assert context_of(admin, "User:admin", "fe80::1%eth0").client_address.text == "fe80:0:0:0:0:0:0:1"
    assert context_of(gateway, "User:admin").client_address.text == "10.1.2.3"
    assert context_of(decide("User:*"), "User:alice").client_address.text == "10.1.2.3"
    assert context_of(ANYBODY, "User:alice").client_address.text == "10.1.2.3"
    on_a_unix_socket = speak(admin, CLAIM, {"type": "http", "client": None})
    assert on_a_unix_socket.client_address.text == "127.0.0.1"


def test_without_a_socket_to_look_at_no_address_is_made_up() -> None:
    with pytest.raises(ValueError, match="no connection"):
        speak(Caller("platform", Role.ADMIN, "User:admin"), CLAIM, None)


def test_who_reads_is_a_principal_or_a_role() -> None:
    scope = {"type": "http", "client": ("10.9.9.9", 7)}
    own = read(Caller("platform", Role.ADMIN, "User:admin"), scope)
    assert isinstance(own, RequestContext)
    assert (own.principal, own.client_address.text) == ("User:admin", "10.9.9.9")
    granted = read(Caller("prometheus", Role.OBSERVE), scope)
    assert isinstance(granted, RoleGrant)
    assert granted.caller_name == "prometheus"


def test_nobody_else_can_make_a_context() -> None:
    with pytest.raises(TypeError, match="abstract"):
        RequestContext("User:admin", parse_address("10.1.2.3"))  # type: ignore[abstract]
    with pytest.raises(TypeError, match="abstract"):
        RoleGrant()  # type: ignore[abstract]


DECISIONS = {"authorize", "authorizedOperations", "authorizeByResourceType", "listGroups", "start"}
NO_CALLER = {"livez", "readyz", "readyzListener", "startupz", "index", "openapi", "docs"}


def test_each_role_may_call_what_it_is_for_and_nothing_else() -> None:
    routes = [*ROUTES, *pages_routes(dict)]
    assert {route.name for route in routes} == set(OPERATIONS) - {"other", "console"}
    assert {route.name for route in routes if not route.needs_caller} == NO_CALLER
    guarded = {route.name: route.open_to for route in routes if route.needs_caller}
    may_call = {role: {name for name, open_to in guarded.items() if role in open_to} for role in Role}
    assert may_call == {
        Role.DECIDE: DECISIONS,
        Role.OBSERVE: {"metrics", "aclCount"},
        Role.FOLLOW: {
            *("watch", "createAcls", "deleteAcls", "alterConfigs"),
            # What is asked of the past is handed on to who has the records.
            *("history", "acls", "explain", "whoCan", "whatCan", "authorizedOperations"),
        },
        Role.ADMIN: set(guarded),
        Role.OPEN: set(guarded),
        Role.NOBODY: set(),
    }


def test_a_route_that_does_not_say_whom_it_is_for_is_for_the_full_roles_alone() -> None:
    routes = Routes("new")

    @routes.post("/v1/new", name="brandNew")
    async def brand_new() -> None:
        """Says nothing of roles."""

    [route] = routes
    assert route.needs_caller
    for role in (Role.DECIDE, Role.OBSERVE):
        with pytest.raises(ClusterAuthorizationException):
            Caller("x", role).check_operation("brandNew", route.open_to)
    Caller("x", Role.ADMIN).check_operation("brandNew", route.open_to)


def test_a_quota_refuses_what_is_beyond_it() -> None:
    caller = Caller("sidecar", Role.DECIDE, patterns=("User:*",), limit=RateLimit(2))
    for _ in range(2):
        caller.check_operation("authorize", DECIDERS)

    def ask_on() -> None:
        for _ in range(100_000):
            caller.check_operation("authorize", DECIDERS)

    with pytest.raises(ThrottlingQuotaExceededException, match="requests_per_second"):
        ask_on()


def test_what_is_not_for_the_role_takes_nothing_from_the_quota() -> None:
    limit = RateLimit(1)
    with pytest.raises(ClusterAuthorizationException):
        Caller("sidecar", Role.DECIDE, limit=limit).check_operation("createAcls", FULL)
    assert limit.take(0.0)


@pytest.mark.parametrize("role", [Role.DECIDE, Role.OBSERVE, Role.FOLLOW])
def test_the_page_names_all_that_a_role_may_call_and_nothing_else(role: Role) -> None:
    (row,) = re.findall(rf"^\| `{role.value}` \|(.*?)\|", CALLERS_PAGE.read_text(), flags=re.MULTILINE)
    row = row.replace("`/metrics`", "metrics")
    operations = {each.name for each in ROUTES if each.needs_caller}
    assert set(re.findall(r"\w+", row)) & operations == {
        each.name for each in ROUTES if each.needs_caller and role in each.open_to
    }
