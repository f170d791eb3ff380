"""Which names any ACL is on, whoever it is for: with allow.everyone.if.no.acl.found, others are open to everybody."""

from app.core.index.prefixes import ROOM
from app.core.kafka.codes import PatternType, ResourceType
from tests.images import index_of, numbered
from tests.updates import topic


def test_prefixes_cover_names_however_many_lengths_they_have() -> None:
    prefixes = [f"{length}-".ljust(length, "x") for length in range(3, 3 * ROOM)]
    index = index_of(numbered([topic(each, pattern_type=PatternType.PREFIXED) for each in prefixes]))
    for prefix in prefixes:
        covered = [index.covers(ResourceType.TOPIC, name) for name in (prefix, f"{prefix}y", prefix[:-1])]
        assert covered == [True, True, False], prefix
        assert not index.covers(ResourceType.GROUP, prefix)


def test_a_literal_pattern_covers_its_name_alone_and_the_wildcard_every_name() -> None:
    index = index_of(numbered([topic("orders")]))
    assert [index.covers(ResourceType.TOPIC, name) for name in ("orders", "orders2", "order")] == [True, False, False]
    assert index_of(numbered([topic("*")])).covers(ResourceType.TOPIC, "orders")
