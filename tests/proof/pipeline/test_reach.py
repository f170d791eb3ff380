"""whoCan and whatCan say of the example company what `effective` says, on every resource and from every host."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

from app.core.access.host_keys import host_key
from app.core.access.regions import name_key
from app.core.access.what import Holding, WhatCan, WhatQuestion
from app.core.access.who import Holder, WhoCan, WhoQuestion
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD_PRINCIPAL, PatternType, ResourceType
from app.core.kafka.operations import DENY_MASK, supported_operations, to_bit_field
from app.pipeline.access.effective import Answer, expanded, masks_of, nodes_of
from app.pipeline.history.schemas import BINDING_FIELDS
from tests.images import image_of, numbered
from tests.proof.pipeline.random_stores import acl_frame, resource_frame


def acls_of_the_company() -> list[AclBinding]:
    bodies = json.loads((Path(__file__).parents[3] / "examples" / "acls.json").read_text(encoding="utf-8"))["bindings"]
    return [AclBinding.from_words(each[name] for name in BINDING_FIELDS) for each in bodies]


def who(image: AuthorizerImage, resource_type: ResourceType, name: str) -> dict[str, list[Holder]]:
    search = WhoCan(image, WhoQuestion(resource_type, name, supported(resource_type)))
    for _ in search.steps():
        pass
    rows = defaultdict(list)
    for row in search.rows:
        rows[row.principal].append(row)
    return rows


def what(image: AuthorizerImage, principal: str) -> list[Holding]:
    search = WhatCan(image, WhatQuestion(principal))
    for _ in search.steps():
        pass
    return search.rows


def supported(resource_type: ResourceType) -> int:
    return to_bit_field(supported_operations(resource_type))


def by_who(rows: dict[str, list[Holder]], principal: str, host: str) -> tuple[int, int]:
    """Operations and denied ones for whoever is at this host, but at none that another ACL names within it."""
    for each in (principal, WILDCARD_PRINCIPAL):
        covering = [row for row in rows.get(each, ()) if host_key(host).startswith(row.key)]
        if covering:
            return covering[-1].operations, covering[-1].denied
    return 0, 0


def by_what(rows: Iterable[Holding], resource_type: ResourceType, name: str, host: str) -> int:
    def covers(pattern_type: PatternType, pattern: str, on: str) -> bool:
        return key.startswith(name_key(pattern_type, pattern)) and host_key(host).startswith(host_key(on))

    operations, key = 0, name_key(PatternType.LITERAL, name)
    for row in rows:
        if row.resource_type is resource_type and covers(row.pattern_type, row.resource_name, row.host):
            assert row.cut_out.count == len(row.cut_out.acls)
            given = row.operations
            for acl in (each.binding for each in row.cut_out.acls):
                if covers(acl.pattern_type, acl.resource_name, acl.host):
                    given &= ~DENY_MASK[acl.operation]
            operations |= given
    return operations


def test_the_example_company_has_the_same_access_by_all_ways(spark: SparkSession) -> None:
    bindings = acls_of_the_company()
    image = image_of(numbered(bindings))
    names = {
        acl.resource_name if acl.pattern_type is PatternType.LITERAL else f"{acl.resource_name}x" for acl in bindings
    }
    masks = masks_of(acl_frame(spark, numbered(bindings)))
    table = expanded(nodes_of(resource_frame(spark, sorted(names - {"*"})[::4]), masks), masks).collect()
    holdings = {principal: what(image, principal) for principal in {row["principal"] for row in table}}
    on_resource = {place: who(image, ResourceType[place[0]], place[1]) for place in {(row[0], row[1]) for row in table}}
    for row in table:
        resource_type, name, answer = ResourceType[row[0]], row[1], Answer(*row[2:])
        known = supported(resource_type)
        expected = answer.effective_mask & known, answer.deny_mask & known
        assert by_who(on_resource[row[0], name], answer.principal, answer.host) == expected, row
        assert by_what(holdings[answer.principal], resource_type, name, answer.host) == expected[0], row
    assert len(table) > 500
