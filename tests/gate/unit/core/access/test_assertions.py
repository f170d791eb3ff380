"""What is said of access, against a plain scan of every request of a grid; every witness is asked of authorize."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

import pytest

from app.core.access import assertions
from app.core.access.assertions import AssertedAcls, Assertion, Witness
from app.core.grouped import authorization_of
from app.core.groups import groups_of
from app.core.index.masks import host_matches
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, AclOperation, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from tests import access_grids as grids
from tests.budgets import seeds
from tests.images import image_of, numbered
from tests.reference import Reference, is_on

CLOSED = AuthorizerConfig()
OPEN = AuthorizerConfig(allow_everyone_if_no_acl_found=True)
_MOST = 6
_NAMED = [*(each for each in grids.ASKED_PRINCIPALS if each != "User:*"), "Group:x"]
_NAMES = (*grids.ASKED_NAMES[:8], "ab", "zz", WILDCARD)
_HOSTS = ("*", "*", "10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "0:0:0:0:0:0:0:1")

Request = tuple[str, tuple[str, ...], str, AclOperation, str]
"""Principal, groups, client address, operation, resource name."""


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


@dataclass(frozen=True)
class Case:
    """An assertion, the store it is made about, and others that are made beside it."""

    said: Assertion
    acls: list[AclBinding]
    config: AuthorizerConfig
    beside: list[Assertion]


def drawn_case(seed: int) -> Case:
    drawn = Random(seed)
    change = grids.random_change(seed)
    acls = [_of_a_group(drawn, each) for each in sorted(change.before | change.after, key=repr)]
    said, *beside = [drawn_assertion(drawn) for _ in range(drawn.choice((1, 1, 3)))]
    return Case(said, acls, change.config, beside)


def has_witness(case: Case) -> bool:
    """Whether a witness is named; each one that is named must refute the assertion."""
    found = AssertedAcls(case.acls, [*case.beside, case.said]).witnesses(case.said, case.config, _MOST)
    for witness in found:
        assert_refutes(witness, case.said, case.acls, case.config)
    return bool(found)


def refuting_requests(case: Case) -> Iterator[Request | None]:
    """For every request of the grid: itself if a plain scan answers otherwise than was said, else None."""
    said, config = case.said, case.config
    callers, addresses = _callers(said, config), _addresses(said)
    for name in (each for each in grids.ASKED_NAMES if _covers(said, each)):
        # The scan passes over ACLs that stand on other resources, whoever asks: they are left out once for all.
        on_it = [each for each in case.acls if is_on(each, said.resource_type, name)]
        for principal, groups in callers:
            scan = _scan(on_it, config, groups)
            for address, operation in product(addresses, said.operations):
                is_so = scan.authorize(principal, address, operation, said.resource_type, name)
                yield None if is_so is said.allowed else (principal, groups, address, operation, name)


def _of_a_group(drawn: Random, acl: AclBinding) -> AclBinding:
    """Some ACLs are a second group's."""
    return acl._replace(principal="Group:x") if acl.principal == "User:" or drawn.random() < 0.1 else acl


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


def _addresses(said: Assertion) -> list[str]:
    """In Java's form."""
    addresses = map(parse_address, grids.ASKED_ADDRESSES)
    return [each.text for each in addresses if host_matches(said.host, each)]


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
    refutable, true = 0, 0
    drawn = seeds("assertions")
    for seed in drawn:
        case = drawn_case(seed)
        asked = list(refuting_requests(case))
        refuting = [each for each in asked if each is not None]
        assert has_witness(case) or not refuting, (seed, case, refuting[0])
        refutable += bool(refuting)
        true += bool(asked) and not refuting
    assert refutable > len(drawn) / 5
    assert true > len(drawn) / 10


def test_an_assertion_for_which_the_acls_were_not_looked_through_is_refused() -> None:
    case = drawn_case(0)
    with pytest.raises(ValueError, match="not one of the assertions"):
        AssertedAcls(case.acls, []).witnesses(case.said, case.config, _MOST)


OTHERS = Assertion(
    allowed=True,
    principals=(),
    others=True,
    operations=(AclOperation.READ,),
    resource_type=ResourceType.TOPIC,
    pattern_type=PatternType.PREFIXED,
    resource_name="a",
)


def test_in_a_store_open_to_all_a_name_with_acls_of_others_alone_is_denied() -> None:
    acls = [acl("TOPIC ab LITERAL User:alice * READ ALLOW")]
    (found,) = AssertedAcls(acls, [OTHERS]).witnesses(OTHERS, OPEN, _MOST)
    assert found.resource_name == "ab"
    assert_refutes(found, OTHERS, acls, OPEN)


def test_an_assertion_may_be_checked_again() -> None:
    acls = [acl("TOPIC a PREFIXED User:* * READ ALLOW")]
    acls += (acl(f"TOPIC a{each} LITERAL User:bob * READ DENY") for each in "bcd")
    asserted = AssertedAcls(acls, [OTHERS])
    first = asserted.witnesses(OTHERS, CLOSED, _MOST)
    assert [each.principal for each in first] == ["User:bob"]
    assert asserted.witnesses(OTHERS, CLOSED, _MOST) == first


def test_what_authorize_does_not_confirm_is_never_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    asserted = AssertedAcls([], [OTHERS])
    monkeypatch.setattr(assertions, "image_of", lambda *_: image_of([], OPEN))
    with pytest.raises(RuntimeError, match=r"does not refute .* this is a bug in Klamm"):
        asserted.witnesses(OTHERS, CLOSED, _MOST)
    monkeypatch.setattr(assertions, "address_within", lambda _: None)
    with pytest.raises(RuntimeError, match=r"no client refutes .* this is a bug in Klamm"):
        AssertedAcls([acl("TOPIC ab LITERAL User:alice * READ ALLOW")], [OTHERS]).witnesses(OTHERS, OPEN, _MOST)
