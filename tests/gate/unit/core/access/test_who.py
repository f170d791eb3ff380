"""Who can do what on a resource: what the rows say is what a plain scan decides, client by client."""

from random import Random

import pytest

from app.core.access.host_keys import address_within, host_key
from app.core.access.regions import Region, tree
from app.core.access.who import Holder, WhoCan, WhoQuestion
from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.index.masks import host_matches
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import from_bit_field, to_bit_field
from tests.access_grids import ASKED_ADDRESSES, ASKED_NAMES, ASKED_OPERATIONS, ASKED_PRINCIPALS, random_store
from tests.budgets import seeds
from tests.images import image_of, numbered


def rows_of(image: AuthorizerImage, question: WhoQuestion) -> tuple[list[Holder], bool]:
    found = WhoCan(image, question)
    for _ in found.steps():
        pass
    return found.rows, found.allowed_by_default


def answer(rows: list[Holder], principal: str, address: str) -> int:
    """The operations, read as a reader reads the rows."""
    for who in (principal, "User:*"):
        own = [row for row in rows if row.principal == who and host_matches(row.host, parse_address(address))]
        if own:
            return own[-1].operations
    return 0


def assert_each_row_is_so(image: AuthorizerImage, rows: list[Holder], resource_type: ResourceType, name: str) -> None:
    """There is a client of each row, and authorize answers to it as the row says, by one of the row's ACLs."""
    assert len({(row.principal, host_key(row.host)) for row in rows}) == len(rows)
    for row in rows:
        others = (host_key(each.host) for each in rows if each.principal == row.principal and each is not row)
        key = host_key(row.host)
        holes = tree(each for each in others if each.startswith(key))
        address = address_within(Region(key, tuple(node.key for node in holes if node.parent is None)))
        assert address is not None, row
        principal = "User:somebody-else" if row.principal == "User:*" else row.principal
        client = Authorization(image, principal, address)
        assert row.operations | row.denied
        for operation in from_bit_field(row.operations | row.denied):
            decision = client.decision(operation, resource_type, name)
            assert decision.verdict.allowed is bool(row.operations >> operation & 1)
            # Narrower hosts of `User:*` have no row where they change nothing, so another ACL of its may decide.
            assert decision.acl is not None
            assert decision.acl in row.listed.acls or decision.acl.binding.principal == "User:*" != row.principal
        assert len(row.listed.acls) == row.listed.count
        assert any(
            acl.binding.principal == row.principal and host_key(row.host).startswith(host_key(acl.binding.host))
            for acl in row.listed.acls
        ), row


def test_the_rows_say_what_a_plain_scan_decides(subtests: pytest.Subtests) -> None:
    for seed in seeds("who can do it"):
        with subtests.test(seed=seed):
            assert questions_asked(seed) > 500


def questions_asked(seed: int) -> int:
    """How many were asked of a random store, and answered alike."""
    count = 0
    drawn = Random(seed)
    config = AuthorizerConfig(frozenset({"User:root"} if drawn.random() < 0.5 else ()), drawn.random() < 0.4)
    image, scan = random_store(drawn, config)
    asked = to_bit_field(drawn.sample(ASKED_OPERATIONS, drawn.choice((1, 3, len(ASKED_OPERATIONS)))))
    for name in drawn.sample(ASKED_NAMES, 8):
        rows, is_open = rows_of(image, WhoQuestion(ResourceType.TOPIC, name, asked))
        by_default = asked if is_open else 0
        assert_each_row_is_so(image, rows, ResourceType.TOPIC, name)
        for principal in ASKED_PRINCIPALS:
            for address in ASKED_ADDRESSES:
                client = parse_address(address)
                count += asked.bit_count()
                expected = to_bit_field(
                    each
                    for each in from_bit_field(asked)
                    if scan.authorize(principal, client.text, each, ResourceType.TOPIC, name)
                )
                if principal in config.super_users:
                    assert not any(row.principal == principal for row in rows)
                    continue
                assert answer(rows, principal, address) | by_default == expected
                here, _ = rows_of(image, WhoQuestion(ResourceType.TOPIC, name, asked, client))
                assert answer(here, principal, address) | by_default == expected
    return count


def test_a_group_that_shares_its_name_with_a_super_user_has_rows() -> None:
    acls = [AclBinding.from_words(f"TOPIC a LITERAL {who} * READ ALLOW".split()) for who in ("Group:g", "User:root")]
    image = image_of(numbered(acls), AuthorizerConfig(frozenset({"Group:g", "User:root"})))
    for address in (None, parse_address("10.1.2.3")):
        rows, _ = rows_of(image, WhoQuestion(ResourceType.TOPIC, "a", 1 << AclOperation.READ, address))
        assert [(row.principal, row.operations) for row in rows] == [("Group:g", 1 << AclOperation.READ)]


def test_hosts_that_narrower_ones_take_all_of_are_not_told() -> None:
    acls = [
        AclBinding.from_words(f"TOPIC a LITERAL User:a {host} READ {word}".split())
        for host, word in (("*", "ALLOW"), ("0.0.0.0/0", "DENY"), ("::/1", "DENY"), ("8000::/1", "DENY"))
    ]
    question = WhoQuestion(ResourceType.TOPIC, "a", 1 << AclOperation.READ)
    rows, _ = rows_of(image_of(numbered(acls)), question)
    assert [(row.host, row.operations) for row in rows] == [("0.0.0.0/0", 0), ("::/1", 0), ("8000::/1", 0)]
    rows, _ = rows_of(image_of(numbered(acls[:3])), question)
    assert [row.host for row in rows] == ["*", "0.0.0.0/0", "::/1"]
