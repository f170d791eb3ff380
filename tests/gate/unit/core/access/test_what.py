"""What a principal can do: what the rows say is what a plain scan decides, request by request."""

from dataclasses import replace
from random import Random

import pytest

from app.core.access.what import Holding, WhatCan, WhatQuestion
from app.core.groups import Groups
from app.core.image import AuthorizerImage
from app.core.index.masks import host_matches
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import ClientAddress, parse_address
from app.core.kafka.operations import DENY_MASK, supported_operations
from tests.access_grids import ASKED_ADDRESSES, ASKED_NAMES, ASKED_PRINCIPALS, random_store
from tests.budgets import seeds
from tests.images import image_of, numbered
from tests.updates import topic


def rows_of(
    image: AuthorizerImage, principal: str, address: ClientAddress | None = None, groups: Groups | None = None
) -> list[Holding]:
    found = WhatCan(image, WhatQuestion(principal, address, groups))
    for _ in found.steps():
        pass
    return whole(found.rows)


def whole(rows: list[Holding]) -> list[Holding]:
    """The rows with all of their `cut_out`, as a reader puts them together."""
    joined: list[Holding] = []
    for row in rows:
        if joined and pattern_and_host(joined[-1]) == pattern_and_host(row):
            before = joined.pop()
            assert not before.is_last
            acls = (*before.cut_out.acls, *row.cut_out.acls)
            joined.append(replace(row, cut_out=replace(row.cut_out, acls=acls)))
        else:
            joined.append(row)
    assert all(row.is_last and len(row.cut_out.acls) == row.cut_out.count for row in joined)
    return joined


def pattern_and_host(row: Holding) -> tuple[object, ...]:
    return row.resource_type, row.pattern_type, row.resource_name, row.host


def covers(pattern_type: PatternType, pattern: str, name: str) -> bool:
    if pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern)
    return pattern in ("*", name)


def meets(acl: AclBinding, name: str, address: ClientAddress) -> bool:
    return covers(acl.pattern_type, acl.resource_name, name) and host_matches(acl.host, address)


def allows(rows: list[Holding], resource_type: ResourceType, name: str, operation: int, address: str) -> bool:
    """Whether it is allowed, read as a reader reads the rows."""
    client = parse_address(address)
    return any(
        row.resource_type is resource_type
        and row.operations >> operation & 1
        and covers(row.pattern_type, row.resource_name, name)
        and host_matches(row.host, client)
        and not any(
            DENY_MASK[acl.binding.operation] >> operation & 1 and meets(acl.binding, name, client)
            for acl in row.cut_out.acls
        )
        for row in rows
    )


def test_the_rows_say_what_a_plain_scan_decides(subtests: pytest.Subtests) -> None:
    for seed in seeds("what a principal can do"):
        with subtests.test(seed=seed):
            assert questions_asked(seed) > 500


def test_an_operation_that_the_resource_does_not_have_gives_nothing() -> None:
    image = image_of(numbered([topic("orders", "User:alice")._replace(operation=AclOperation.CREATE_TOKENS)]))
    assert rows_of(image, "User:alice") == []


def questions_asked(seed: int) -> int:
    """How many were asked of a random store, and answered alike."""
    count = 0
    drawn = Random(seed)
    image, scan = random_store(drawn, AuthorizerConfig())
    names = drawn.sample(ASKED_NAMES, 6)
    for principal in ASKED_PRINCIPALS:
        groups = drawn.choice((None, Groups(("*", "x"))))
        scan = replace(scan, groups=frozenset(() if groups is None else groups.principals))
        rows = rows_of(image, principal, groups=groups)
        for address in drawn.sample(ASKED_ADDRESSES, 3):
            client = parse_address(address)
            here = rows_of(image, principal, client, groups)
            for resource_type in (ResourceType.TOPIC, ResourceType.GROUP):
                for operation in supported_operations(resource_type):
                    for name in names:
                        count += 1
                        expected = scan.authorize(principal, client.text, operation, resource_type, name)
                        assert allows(rows, resource_type, name, operation, address) is expected
                        assert allows(here, resource_type, name, operation, address) is expected
    return count
