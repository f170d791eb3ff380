"""What is said of access, against a plain scan of every request of a grid; every witness is asked of authorize."""

from itertools import product
from random import Random

import pytest

from app.core.access.assertions import AssertedAcls, Assertion, Witness
from app.core.authorize import Authorization
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
MANY_SEEDS = 100_000
_MOST = 6
_NAMES = (*grids.ASKED_NAMES[:8], "ab", "zz", WILDCARD)
_HOSTS = ("*", "*", "10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "0:0:0:0:0:0:0:1")


def acl(text: str) -> AclBinding:
    """`TOPIC orders LITERAL User:alice * READ ALLOW`."""
    return AclBinding.from_words(text.split(" "))


def drawn_assertion(drawn: Random) -> Assertion:
    principals = drawn.sample([each for each in grids.ASKED_PRINCIPALS if each != "User:*"], drawn.choice((1, 1, 2)))
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
    )


def check(seed: int) -> tuple[int, int]:
    """How many requests were looked at, and how many of these were otherwise than was said."""
    drawn = Random(seed)
    change = grids.random_change(seed)
    acls = sorted(change.before | change.after, key=repr)
    said = drawn_assertion(drawn)
    found = AssertedAcls(acls).witnesses(said, change.config, _MOST)
    scan = Reference(acls, change.config.super_users, change.config.allow_everyone_if_no_acl_found)
    for witness in found:
        assert_refutes(witness, said, acls, change.config, scan)
    asked, refuted = 0, 0
    for principal, address, operation, name in _grid(said, change.config):
        asked += 1
        is_so = scan.authorize(principal, parse_address(address).text, operation, said.resource_type, name)
        refuted += is_so is not said.allowed
        assert found or is_so is said.allowed, (seed, said, principal, address, operation, name, acls)
    return asked, refuted


def assert_refutes(
    witness: Witness, said: Assertion, acls: list[AclBinding], config: AuthorizerConfig, scan: Reference
) -> None:
    address = parse_address(witness.client_address)
    assert _is_spoken_of(said, witness.principal, config)
    assert host_matches(said.host, address)
    assert witness.operation in said.operations
    assert _covers(said, witness.resource_name)
    question = (witness.operation, said.resource_type, witness.resource_name)
    authorization = Authorization(image_of(numbered(acls), config), witness.principal, address)
    assert authorization.decide(*question).allowed is not said.allowed
    assert scan.authorize(witness.principal, address.text, *question) is not said.allowed
    told = authorization.decision(*question)
    assert (told.verdict, told.acl and told.acl.binding) == (
        witness.decision.verdict,
        witness.decision.acl and witness.decision.acl.binding,
    )


def _grid(said: Assertion, config: AuthorizerConfig) -> list[tuple[str, str, AclOperation, str]]:
    return [
        (principal, address, operation, name)
        for principal, address, operation, name in product(
            [each for each in grids.ASKED_PRINCIPALS if _is_spoken_of(said, each, config)],
            [each for each in grids.ASKED_ADDRESSES if host_matches(said.host, parse_address(each))],
            said.operations,
            [each for each in grids.ASKED_NAMES if _covers(said, each)],
        )
    ]


def _is_spoken_of(said: Assertion, principal: str, config: AuthorizerConfig) -> bool:
    if principal == "User:*":
        return False
    if said.others:
        return principal not in said.principals and principal not in config.super_users
    return principal in said.principals


def _covers(said: Assertion, name: str) -> bool:
    pattern = said.resource_name
    if said.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern)
    return pattern in (WILDCARD, name)


def test_what_holds_is_so_in_every_request_and_what_does_not_has_a_witness() -> None:
    looked = [check(seed) for seed in range(SEEDS)]
    assert sum(refuted > 0 for _, refuted in looked) > SEEDS / 5
    assert sum(refuted == 0 < asked for asked, refuted in looked) > SEEDS / 10


@pytest.mark.full("long draws")
@pytest.mark.parametrize("first", range(SEEDS, MANY_SEEDS + SEEDS, 10_000))
def test_what_holds_is_so_in_every_request_thoroughly(first: int) -> None:
    for seed in range(first, first + 10_000):
        check(seed)
