"""Who can do what on a resource: what the rows say is what a plain scan decides, client by client."""

from random import Random

import pytest

from app.core.access.who import Holder, WhoCan, WhoQuestion
from app.core.image import AuthorizerImage
from app.core.index.masks import host_matches
from app.core.kafka.codes import ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import from_bit_field, to_bit_field
from tests.access_grids import ASKED_ADDRESSES, ASKED_NAMES, ASKED_OPERATIONS, ASKED_PRINCIPALS, random_acl
from tests.images import image_of, numbered
from tests.reference import Reference

SEEDS = 8
MANY_SEEDS = 400


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


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_rows_say_what_a_plain_scan_decides(seed: int) -> None:
    assert questions_asked(seed) > 500


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEEDS, MANY_SEEDS, 49))
def test_the_rows_say_what_a_plain_scan_decides_thoroughly(first: int) -> None:
    assert sum(map(questions_asked, range(first, first + 49))) > 50_000


def questions_asked(seed: int) -> int:
    """How many were asked of a random store, and answered alike."""
    count = 0
    drawn = Random(seed)
    acls = numbered(random_acl(drawn) for _ in range(drawn.choice((0, 3, 10, 40))))
    config = AuthorizerConfig(frozenset({"User:root"} if drawn.random() < 0.5 else ()), drawn.random() < 0.4)
    image = image_of(acls, config)
    scan = Reference([acl.binding for acl in acls], config.super_users, config.allow_everyone_if_no_acl_found)
    asked = to_bit_field(drawn.sample(ASKED_OPERATIONS, drawn.choice((1, 3, len(ASKED_OPERATIONS)))))
    for name in drawn.sample(ASKED_NAMES, 8):
        rows, is_open = rows_of(image, WhoQuestion(ResourceType.TOPIC, name, asked))
        by_default = asked if is_open else 0
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
