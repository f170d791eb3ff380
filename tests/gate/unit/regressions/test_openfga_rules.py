"""Published faults of OpenFGA, each shown not to be Klamm's: what ACLs mean, and what is told apart."""

from collections.abc import Sequence
from itertools import permutations, product
from uuid import UUID

from sqlalchemy import Text

from app.core.authorize import Authorization
from app.core.kafka.bindings import AclBinding, StandardAcl, canonical_fields
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import from_bit_field
from app.store.tables import metadata
from tests.gate.unit.regressions.acls import ADDRESS, DESCRIBE, GROUP, READ, TOPIC, WRITE, allow, allowed, deny, prefix
from tests.images import image_of, numbered
from tests.reference import Reference


def test_openfga_cve_2026_34972_questions_that_join_to_one_text_stay_apart() -> None:
    """Two different checks shared one cache key; names and principals may hold any separator."""
    parts = ("a", "a:b", "a,b", "a;b", "a|b", "a*", "*a", "a\n", "a\x1f", "a b", "a/b")
    pairs = list(product(parts, parts))
    image = image_of(numbered(allow(name, f"User:{who}") for name, who in pairs[::2]))
    for at, (name, who) in enumerate(pairs):
        assert allowed(image, f"User:{who}", READ, name) is (at % 2 == 0)


def test_openfga_cve_2026_55170_identifiers_are_compared_to_the_letter() -> None:
    image = image_of(numbered([allow("Caf\u00e9 ", "User:Alice")]))
    assert allowed(image, "User:Alice", READ, "Caf\u00e9 ")
    for principal, name in (
        ("User:alice", "Caf\u00e9 "),
        ("User:Alice ", "Caf\u00e9 "),
        ("User:Alice", "Caf\u00e9"),
        ("User:Alice", "Cafe\u0301 "),
        ("User:Alice", "caf\u00e9 "),
    ):
        assert not allowed(image, principal, READ, name)


def test_openfga_cve_2026_24851_wildcard_literal_prefix_and_deny_in_any_order_and_under_any_id() -> None:
    acls = [allow("*"), allow("orders", operation=WRITE), prefix("ord", DESCRIBE), deny("orders", "User:*", DESCRIBE)]
    images = [
        image_of(StandardAcl(UUID(int=n), acl) for n, acl in zip(ids, order, strict=True))
        for order in permutations(acls)
        for ids in ((1, 2, 3, 4), (4, 3, 2, 1))
    ]
    for image in images:
        answers = [allowed(image, "User:alice", operation, "orders") for operation in (READ, WRITE, DESCRIBE)]
        assert answers == [True, True, False]


def test_openfga_cve_2023_40579_lists_are_no_looser_than_single_questions() -> None:
    acls = [
        allow("team-", operation=AclOperation.ALL)._replace(resource_type=GROUP, pattern_type=PatternType.PREFIXED),
        deny("team-b", operation=DESCRIBE)._replace(resource_type=GROUP),
        allow("lone", operation=READ)._replace(resource_type=GROUP),
    ]
    asked = Authorization(image_of(numbered(acls)), "User:alice", ADDRESS)
    groups = ["team-a", "team-b", "lone", "other"]
    shown = [group for group in groups if asked.decide(DESCRIBE, GROUP, group).allowed]
    assert shown == ["team-a", "lone"]
    assert shown == [group for group in groups if DESCRIBE in from_bit_field(asked.authorized_operations(GROUP, group))]


PARTS = (
    "a",
    "",
    "*",
    "a,b",
    "a:b",
    "a\x00b",
    "a\x1fb",
    "1",
    "\x00\x00\x00\x01a",
    "User:a",
    "a\n",
    "é",
    "e\u0301",
    "\u0001",
)


def test_cve_2026_48096_bindings_that_differ_have_keys_that_differ() -> None:
    """Two different tuples had one key: the seven fields are typed and their lengths are part of the key."""
    texts = [
        AclBinding(TOPIC, name, PatternType.LITERAL, principal, host, READ, AclPermissionType.ALLOW)
        for name, principal, host in product(PARTS, PARTS, PARTS)
    ]
    codes = [
        AclBinding(kind, "a", pattern_type, "User:a", "*", operation, permission_type)
        for kind in (TOPIC, GROUP)
        for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        for operation in AclOperation
        for permission_type in (AclPermissionType.ALLOW, AclPermissionType.DENY)
    ]
    bindings = {*texts, *codes}
    assert len({binding.natural_key for binding in bindings}) == len(bindings)
    assert len({canonical_fields(binding) for binding in bindings}) == len(bindings)


def test_cve_2026_55170_the_store_compares_code_points_too() -> None:
    every = [column for table in metadata.tables.values() for column in table.columns]
    columns = [(str(column), column.type.collation) for column in every if isinstance(column.type, Text)]
    assert len(columns) > 5
    assert [name for name, collation in columns if collation != "C"] == []


ASKED = [
    (principal, address, operation, name)
    for principal in ("User:alice", "User:bob", "User:*", "Group:*")
    for address in ("10.0.0.1", "10.0.0.2")
    for operation in (READ, WRITE, DESCRIBE)
    for name in ("orders", "ord", "*", "other")
]


def answers(acls: Sequence[StandardAcl]) -> list[bool]:
    image = image_of(acls)
    return [
        Authorization(image, principal, parse_address(address)).decide(operation, TOPIC, name).allowed
        for principal, address, operation, name in ASKED
    ]


def in_every_order(acls: Sequence[AclBinding]) -> None:
    """The answers are those of a plain scan, in whatever order and under whatever ids the ACLs come."""
    reference = Reference(acls)
    expected = [
        reference.authorize(principal, address, operation, TOPIC, name) for principal, address, operation, name in ASKED
    ]
    assert True in expected
    assert False in expected
    numbers = range(1, len(acls) + 1)
    for order in permutations(acls):
        for ids in (numbers, reversed(numbers)):
            assert answers([StandardAcl(UUID(int=n), acl) for n, acl in zip(ids, order, strict=True)]) == expected


def test_cve_2025_25196_everybody_beside_somebody() -> None:
    """A check went wrong where a type was open to all and to some at once."""
    in_every_order([allow("orders", "User:*"), deny("orders", "User:bob"), allow("orders", "User:bob", WRITE)])
    in_every_order([deny("orders", "User:*"), allow("orders", "User:bob"), allow("orders", "User:*", WRITE)])
    in_every_order([allow("orders", "Group:*"), allow("orders", "User:alice"), deny("orders", "User:*", WRITE)])


def test_cve_2025_64751_every_resource_beside_some_resource() -> None:
    """Of a wildcard and specific entries, the one that came first decided."""
    in_every_order([allow("*"), deny("orders", operation=DESCRIBE), prefix("o", WRITE), deny("*", "User:bob")])
    in_every_order([deny("*", operation=WRITE), allow("orders", operation=WRITE), prefix("or"), allow("*", "User:*")])
    in_every_order([prefix("*")._replace(principal="User:*"), allow("*", operation=WRITE), deny("ord", "User:*")])


def test_cve_2022_39342_every_host_beside_some_host() -> None:
    """A wildcard in one place of a rule opened another."""
    here = allow("orders")._replace(host="10.0.0.1")
    range_ = allow("orders", "User:*", WRITE)._replace(host="10.0.0.0/31")
    nowhere = deny("*", "User:*", DESCRIBE)._replace(host="10.0.0.2")
    in_every_order([here, range_, nowhere])
    in_every_order([allow("orders", "User:bob"), deny("orders", "User:*")._replace(host="10.0.0.2/32"), here])
