"""What is said of access, against a plain scan of every request of a grid; every witness is asked of authorize."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from app.core.access.assertions import AssertedAcls, Assertion, Witness
from app.core.grouped import authorization_of
from app.core.groups import groups_of
from app.core.index.masks import host_matches
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, AclOperation, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from tests import access_grids as grids
from tests.images import image_of, numbered
from tests.reference import Reference

CLOSED = AuthorizerConfig()
OPEN = AuthorizerConfig(allow_everyone_if_no_acl_found=True)
SEEDS = 300
MANY_SEEDS = 20_000
_MOST = 6
_NAMED = [*(each for each in grids.ASKED_PRINCIPALS if each != "User:*"), "Group:x"]
_NAMES = (*grids.ASKED_NAMES[:8], "ab", "zz", WILDCARD)
_HOSTS = ("*", "*", "10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "0:0:0:0:0:0:0:1")


def acl(text: str) -> AclBinding:
    """`TOPIC orders LITERAL User:alice * READ ALLOW`."""
    return AclBinding.from_words(text.split(" "))


def drawn_assertion(drawn: Random) -> Assertion:
    principals = drawn.sample(_NAMED, drawn.choice((1, 1, 2)))
    others = drawn.random() < 0.5
    return Assertion(
        allowed=drawn.random() < 0.4,
        principals=tuple(principals[: drawn.choice((0, 1, 2))] if others else principals),
        others=others,
        operations=tuple(drawn.sample(grids.ASKED_OPERATIONS, drawn.choice((1, 1, 2)))),
        resource_type=drawn.choice((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)),
        pattern_type=drawn.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        resource_name=drawn.choice(_NAMES) or "a",
        host=drawn.choice(_HOSTS),
        groups=() if others else tuple(drawn.sample(("*", "x"), drawn.choice((0, 0, 1, 2)))),
    )


def check(seed: int) -> tuple[int, int]:
    """How many requests were looked at, and how many of these were otherwise than was said."""
    drawn = Random(seed)
    change = grids.random_change(seed)
    acls = [_of_a_group(drawn, each) for each in sorted(change.before | change.after, key=repr)]
    said = drawn_assertion(drawn)
    found = AssertedAcls(acls).witnesses(said, change.config, _MOST)
    for witness in found:
        assert_refutes(witness, said, acls, change.config)
    asked, refuted = 0, 0
    for (principal, groups), (address, operation, name) in product(_callers(said, change.config), _grid(said)):
        asked += 1
        scan = _scan(acls, change.config, groups)
        is_so = scan.authorize(principal, parse_address(address).text, operation, said.resource_type, name)
        refuted += is_so is not said.allowed
        assert found or is_so is said.allowed, (seed, said, principal, groups, address, operation, name, acls)
    return asked, refuted


def _of_a_group(drawn: Random, acl: AclBinding) -> AclBinding:
    """Some ACLs are a second group's."""
    return replace(acl, principal="Group:x") if acl.principal == "User:" or drawn.random() < 0.1 else acl


def _scan(acls: list[AclBinding], config: AuthorizerConfig, groups: tuple[str, ...]) -> Reference:
    of_groups = frozenset(f"Group:{name}" for name in groups)
    return Reference(acls, config.super_users, config.allow_everyone_if_no_acl_found, groups=of_groups)


def assert_refutes(witness: Witness, said: Assertion, acls: list[AclBinding], config: AuthorizerConfig) -> None:
    address = parse_address(witness.client_address)
    assert _is_spoken_of(said, witness.principal, witness.groups, config)
    assert host_matches(said.host, address)
    assert witness.operation in said.operations
    assert _covers(said, witness.resource_name)
    question = (witness.operation, said.resource_type, witness.resource_name)
    image = image_of(numbered(acls), config)
    authorization = authorization_of(image, witness.principal, address, groups_of(witness.groups))
    assert authorization.decide(*question).allowed is not said.allowed
    scan = _scan(acls, config, witness.groups)
    assert scan.authorize(witness.principal, address.text, *question) is not said.allowed
    told = authorization.decision(*question)
    assert (told.verdict, told.acl and told.acl.binding) == (
        witness.decision.verdict,
        witness.decision.acl and witness.decision.acl.binding,
    )


def _callers(said: Assertion, config: AuthorizerConfig) -> list[tuple[str, tuple[str, ...]]]:
    """Principals with the groups that they are in."""
    in_groups = [said.groups, *((), ("*",), ("x",), ("*", "x"))]
    return [
        (principal, groups)
        for principal, groups in product(grids.ASKED_PRINCIPALS, dict.fromkeys(in_groups))
        if _is_spoken_of(said, principal, groups, config)
    ]


def _grid(said: Assertion) -> list[tuple[str, AclOperation, str]]:
    return list(
        product(
            [each for each in grids.ASKED_ADDRESSES if host_matches(said.host, parse_address(each))],
            said.operations,
            [each for each in grids.ASKED_NAMES if _covers(said, each)],
        )
    )


def _is_spoken_of(said: Assertion, principal: str, groups: tuple[str, ...], config: AuthorizerConfig) -> bool:
    """Groups are `Group:*` and `Group:x`; nobody's own principal is one of theirs."""
    if principal == "User:*" or principal.startswith("Group:"):
        return False
    named = {f"Group:{name}" for name in groups} & set(said.principals)
    if said.others:
        return principal not in (*said.principals, *config.super_users) and not named
    if principal in said.principals:
        return set(groups) == set(said.groups)
    # A group is whoever is in it, without ACLs of his own.
    is_member = any(set(groups) == {*said.groups, each.removeprefix("Group:")} for each in named)
    return is_member and principal.startswith("User:somebody-else")


def _covers(said: Assertion, name: str) -> bool:
    pattern = said.resource_name
    if said.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern)
    return pattern in (WILDCARD, name)


def test_what_holds_is_so_in_every_request_and_what_does_not_has_a_witness() -> None:
    looked = [check(seed) for seed in range(SEEDS)]
    assert sum(refuted > 0 for _, refuted in looked) > SEEDS / 5
    assert sum(refuted == 0 < asked for asked, refuted in looked) > SEEDS / 10


@pytest.mark.slow
@pytest.mark.full("long draws")
@pytest.mark.parametrize("first", range(SEEDS, MANY_SEEDS + SEEDS, 10_000))
def test_what_holds_is_so_in_every_request_thoroughly(first: int) -> None:
    for seed in range(first, first + 10_000):
        check(seed)
