"""Who gains and loses what: never a flip missing, never one invented, and told as a reader would."""

import pytest

from app.core.access.diff import AccessChange, AccessDiff, access_diff
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.operations import supported_operations
from tests.access_grids import assert_exact, random_change
from tests.budgets import seeds

CLOSED = AuthorizerConfig()
OPEN = AuthorizerConfig(allow_everyone_if_no_acl_found=True)


def acl(text: str) -> AclBinding:
    """`TOPIC orders LITERAL User:alice * READ ALLOW`."""
    return AclBinding.from_words(text.split(" "))


def diff(before: list[str], after: list[str], config: AuthorizerConfig = CLOSED) -> AccessDiff:
    return access_diff(map(acl, before), map(acl, after), config)


def told(changes: AccessDiff) -> list[str]:
    """The rows as short texts, operations that nobody asks of the type left out."""
    assert not changes.unresolved
    return list(map(row, changes.changes))


def row(change: AccessChange) -> str:
    known = supported_operations(change.resource_type)
    operations = [each.name for each in change.operations if each in known]
    parts = [
        "+" if change.gained else "-",
        change.principals.name + "".join(f"!{each}" for each in change.principals.besides),
        change.hosts.host + "".join(f"!{each}" for each in change.hosts.besides),
        "ALL" if len(operations) == len(known) else ",".join(operations),
        change.resource_type.name,
        change.names.pattern_type.name + " " + change.names.name,
    ]
    return " ".join(parts) + "".join(f" !{pattern_type.name} {name}" for pattern_type, name in change.names.besides)


def test_a_group_that_shares_its_name_with_a_super_user_is_still_a_group() -> None:
    alice, group = "TOPIC a LITERAL User:alice * READ ALLOW", "TOPIC a LITERAL Group:g * READ ALLOW"
    everybody, denied = "TOPIC a LITERAL User:* * READ ALLOW", "TOPIC a LITERAL Group:g * READ DENY"
    config = AuthorizerConfig(frozenset({"Group:g", "User:root"}))
    assert told(diff([alice, group], [alice], config)) == ["- Group:g * READ,DESCRIBE TOPIC LITERAL a"]
    assert told(diff([], [everybody], config)) == ["+ User:*!User:root * READ,DESCRIBE TOPIC LITERAL a"]
    assert told(diff([everybody], [everybody, denied], config)) == ["- Group:g * READ TOPIC LITERAL a"]


def test_a_flip_is_never_missing_and_never_invented() -> None:
    for seed in seeds("flips"):
        change = random_change(seed)
        assert assert_exact(change, access_diff(change.before, change.after, change.config)) > 1_000


def test_nothing_changed_means_nobody_gains_or_loses() -> None:
    acls = ["TOPIC orders LITERAL User:alice * READ ALLOW", "TOPIC * LITERAL User:* * READ DENY"]
    assert diff(acls, acls, OPEN) == AccessDiff()


def test_an_allow_brings_what_it_implies() -> None:
    assert told(diff([], ["TOPIC orders LITERAL User:alice * READ ALLOW"])) == [
        "+ User:alice * READ,DESCRIBE TOPIC LITERAL orders"
    ]


def test_what_was_allowed_already_is_not_gained() -> None:
    wide = "TOPIC ord PREFIXED User:* * DESCRIBE ALLOW"
    assert told(diff([wide], [wide, "TOPIC orders LITERAL User:alice * READ ALLOW"])) == [
        "+ User:alice * READ TOPIC LITERAL orders"
    ]


def test_a_deny_takes_only_what_there_was() -> None:
    allowed = "TOPIC orders LITERAL User:alice 10.0.0.0/8 READ ALLOW"
    assert told(diff([allowed], [allowed, "TOPIC * LITERAL User:* * ALL DENY"])) == [
        "- User:alice 10.0.0.0/8 READ,DESCRIBE TOPIC LITERAL orders"
    ]


def test_an_acl_for_all_tells_whom_it_brings_nothing() -> None:
    there = [
        "TOPIC orders LITERAL User:alice * READ ALLOW",
        "TOPIC orders LITERAL User:bob * WRITE ALLOW",
        "TOPIC pay PREFIXED User:carol * ALL DENY",
    ]
    config = AuthorizerConfig(super_users=frozenset({"User:root"}))
    assert told(diff(there, [*there, "TOPIC orders LITERAL User:* * READ ALLOW"], config)) == [
        "+ User:*!User:alice!User:bob!User:root * READ,DESCRIBE TOPIC LITERAL orders",
        "+ User:bob * READ TOPIC LITERAL orders",
    ]


def test_an_acl_on_all_names_tells_the_names_that_it_changes_nothing_on() -> None:
    there = ["TOPIC orders LITERAL User:alice * READ ALLOW", "TOPIC pay PREFIXED User:alice * READ DENY"]
    assert told(diff(there, [*there, "TOPIC * LITERAL User:alice * READ ALLOW"])) == [
        "+ User:alice * READ TOPIC LITERAL * !LITERAL orders !PREFIXED pay",
        "+ User:alice * DESCRIBE TOPIC LITERAL * !LITERAL orders",
    ]


def test_a_range_within_a_range_is_told_by_both() -> None:
    there = ["TOPIC orders LITERAL User:alice 10.1.0.0/16 ALL DENY"]
    assert told(diff(there, [*there, "TOPIC orders LITERAL User:alice 10.0.0.0/8 WRITE ALLOW"])) == [
        "+ User:alice 10.0.0.0/8!10.1.0.0/16 WRITE,DESCRIBE TOPIC LITERAL orders"
    ]


def test_hosts_of_an_acl_for_all_around_it_part_what_a_principal_gains() -> None:
    there = ["TOPIC pay PREFIXED User:* 10.0.0.0/8 READ ALLOW"]
    assert told(diff(there, [*there, "TOPIC pay-x LITERAL User:alice * READ ALLOW"])) == [
        "+ User:alice *!10.0.0.0/8 READ,DESCRIBE TOPIC LITERAL pay-x"
    ]


def test_the_first_acl_on_a_resource_takes_it_from_everybody_else() -> None:
    assert told(diff([], ["TOPIC orders LITERAL User:alice * READ ALLOW"], OPEN)) == [
        "- User:*!User:alice * ALL TOPIC LITERAL orders",
        "- User:alice * WRITE,CREATE,DELETE,ALTER,DESCRIBE_CONFIGS,ALTER_CONFIGS TOPIC LITERAL orders",
    ]


def test_the_last_acl_that_goes_gives_the_resource_to_everybody() -> None:
    assert told(diff(["TOPIC orders LITERAL User:alice * READ DENY"], [], OPEN)) == [
        "+ User:* * ALL TOPIC LITERAL orders",
    ]


def test_a_resource_that_others_cover_is_nobodys_by_default_before_and_after() -> None:
    there = ["TOPIC * LITERAL User:zoe 10.0.0.1 CREATE DENY"]
    assert told(diff(there, [*there, "TOPIC orders LITERAL User:alice * WRITE ALLOW"], OPEN)) == [
        "+ User:alice * WRITE,DESCRIBE TOPIC LITERAL orders"
    ]


def test_an_acl_that_no_client_meets_still_ends_the_default() -> None:
    assert told(diff([], ["TOPIC orders LITERAL User:alice nowhere READ ALLOW"], OPEN)) == [
        "- User:* * ALL TOPIC LITERAL orders"
    ]


def test_super_users_neither_gain_nor_lose() -> None:
    config = AuthorizerConfig(super_users=frozenset({"User:root"}))
    assert told(diff([], ["TOPIC orders LITERAL User:root * ALL DENY"], config)) == []


def test_resource_types_are_told_apart() -> None:
    assert told(diff(["GROUP g LITERAL User:alice * READ ALLOW"], ["TOPIC g LITERAL User:alice * READ ALLOW"])) == [
        "- User:alice * READ,DESCRIBE GROUP LITERAL g",
        "+ User:alice * READ,DESCRIBE TOPIC LITERAL g",
    ]


def test_operations_that_nobody_asks_of_a_type_are_told_as_core_decides_them() -> None:
    (change,) = diff([], ["CLUSTER kafka-cluster LITERAL User:alice * READ ALLOW"]).changes
    assert change.operations == (AclOperation.READ, AclOperation.DESCRIBE)


def test_two_texts_of_one_range_are_one() -> None:
    before = ["TOPIC orders LITERAL User:alice 10.1.2.3/8 READ ALLOW"]
    assert told(diff(before, ["TOPIC orders LITERAL User:alice 10.0.0.0/8 READ ALLOW"])) == []


def test_changes_for_everybody_on_names_within_each_other_are_told_apart() -> None:
    before = ["TOPIC * LITERAL User:* * ALL ALLOW"]
    after = [*before, "TOPIC t PREFIXED User:* * READ DENY", "TOPIC t7 LITERAL User:* * WRITE DENY"]
    assert told(diff(before, after)) == ["- User:* * READ TOPIC PREFIXED t", "- User:* * WRITE TOPIC LITERAL t7"]


def test_the_cost_is_that_of_what_overlaps_the_change() -> None:
    """Others' ACLs, and those on other names, are asked nothing: a budget of some questions is enough."""
    there = [
        acl(f"TOPIC t{number} LITERAL User:u{number % 50} 10.0.0.{number % 250} READ ALLOW") for number in range(5_000)
    ]
    there += [acl(f"GROUP g{number} PREFIXED User:* * READ ALLOW") for number in range(500)]
    after = [*there, acl("TOPIC t PREFIXED User:new * READ ALLOW"), acl("TOPIC t7 LITERAL User:u7 * WRITE ALLOW")]
    changes = access_diff(there, after, CLOSED, max_questions=20)
    assert told(changes) == [
        "+ User:new * READ,DESCRIBE TOPIC PREFIXED t",
        "+ User:u7 * WRITE TOPIC LITERAL t7",
        "+ User:u7 *!10.0.0.7 DESCRIBE TOPIC LITERAL t7",
    ]


def test_what_is_too_much_is_said_to_be() -> None:
    there = [acl(f"TOPIC t{number} LITERAL User:{'ab'[number % 2]} * READ ALLOW") for number in range(100)]
    few = acl("TOPIC other LITERAL User:c * READ ALLOW")
    changes = access_diff(there, [few], CLOSED, max_questions=110)
    assert [row(each) for each in changes.changes if each.principals.name == "User:c"] == [
        "+ User:c * READ,DESCRIBE TOPIC LITERAL other"
    ]
    (unresolved,) = changes.unresolved
    assert (unresolved.principal, unresolved.resource_type, unresolved.changed_acls) == (
        "User:b",
        ResourceType.TOPIC,
        50,
    )
    assert {each.principals.name for each in changes.changes} == {"User:a", "User:c"}


def test_whoever_is_too_much_to_be_told_is_not_among_everybody() -> None:
    there = [acl(f"TOPIC t{number} LITERAL User:many * READ ALLOW") for number in range(300)]
    after = [*there, acl("TOPIC * LITERAL User:* * READ ALLOW")]
    changes = access_diff(there, after, CLOSED, max_questions=100)
    assert list(map(row, changes.changes)) == ["+ User:*!User:many * READ,DESCRIBE TOPIC LITERAL *"]
    assert [each.principal for each in changes.unresolved] == ["User:many"]


@pytest.mark.parametrize("questions", [100, 5, 0])
def test_if_everybody_is_too_much_nobody_is_told(questions: int) -> None:
    there = [acl(f"TOPIC t{number} LITERAL User:* 10.0.0.{number} READ ALLOW") for number in range(200)]
    after = [*there, acl("TOPIC * LITERAL User:* * READ DENY")]
    changes = access_diff(there, after, CLOSED, max_questions=questions)
    assert changes.changes == ()
    assert [each.principal for each in changes.unresolved] == ["User:*"]
