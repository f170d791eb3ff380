"""What is probably meant otherwise is told, with the way out; what can be meant as it is gets no word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.doubts import doubts_of_acl, doubts_of_principal
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.operations import supported_operations

GOOD = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
)
PREFIXED = {"pattern_type": PatternType.PREFIXED}
GROUP = {"resource_type": ResourceType.GROUP}
USER = {"resource_type": ResourceType.USER, "operation": AclOperation.CREATE_TOKENS}


def test_what_can_be_meant_as_it_is_gets_no_word(subtests: pytest.Subtests) -> None:
    for fields in [
        {},
        {"resource_name": "*"},
        {"resource_name": "orders.", **PREFIXED},
        {"resource_name": ".", **PREFIXED},
        {"resource_name": "ö team", **GROUP},
        {"resource_name": "*", **USER},
        {"resource_name": "User:bob", **USER},
        {"resource_name": "kafka-cluster", "resource_type": ResourceType.CLUSTER, "operation": AclOperation.ALTER},
        {"principal": "User:*"},
        {"principal": "User:CN=alice,OU=Users,O=b"},
        {"principal": "User:ANONYMOUS"},
        {"principal": "Role:team"},
        {"host": "10.1.2.3"},
        {"host": "10.0.0.0/8"},
        {"host": "0.0.0.0/0"},
        {"host": "10.1.2.3/32"},
        {"host": "010.0.0.1/8"},  # only Java reads this
        {"host": "0:0:0:0:0:0:0:1"},
        {"host": "2001:db8::/32"},
        {"operation": AclOperation.ALL},
    ]:
        with subtests.test(fields=fields):
            assert list(doubts_of_acl(GOOD._replace(**fields))) == []  # type: ignore[arg-type]  # one field of any type


def test_what_is_probably_meant_otherwise_is_told_with_the_way_out(subtests: pytest.Subtests) -> None:
    for fields, words in [
        ({"resource_name": "pii-*"}, ["`pii-*`", "LITERAL", "use `pii-` with PREFIXED"]),
        ({"resource_name": "pii-*", **PREFIXED}, ["a prefix is compared exactly", "use `pii-` with PREFIXED"]),
        ({"resource_name": "*", **PREFIXED}, ["for every topic, use `*` with LITERAL"]),
        ({"resource_name": "a*b"}, ["`a*b`", "Kafka has no wildcards within names"]),
        ({"resource_name": "team-*", **GROUP}, ["use `team-` with PREFIXED"]),
        ({"resource_name": "two words"}, ["no topic is named `two words`: ` `"]),
        ({"resource_name": "a/", **PREFIXED}, ["no topic name begins with `a/`"]),
        ({"resource_name": "x" * 250}, ["Kafka does not allow this name"]),
        ({"resource_name": ".."}, ["Kafka does not allow this name"]),
        ({"resource_name": " g", **GROUP}, ["begins or ends with white space"]),
        ({"resource_name": "g\u200b", **GROUP}, ['`"g\\u200b"`', "invisible characters"]),
        ({"resource_name": "user:bob", **USER}, ["is not `User:bob`"]),
        ({"resource_name": "bob", **USER}, ["write `User:bob`"]),
        ({"principal": "user:temp"}, ["`user:temp` is not `User:temp`"]),
        ({"principal": "User:"}, ["no name after the colon"]),
        ({"principal": "User:team-*"}, ["part of this name, not a wildcard", "only `User:*` means everybody"]),
        ({"principal": "User:a,User:b"}, ["is a single principal"]),
        ({"principal": "User:a; user:b"}, ["is a single principal"]),
        ({"principal": "User: alice"}, ["begins or ends with white space"]),
        ({"principal": "User:anonymous"}, ["`User:ANONYMOUS`"]),
        ({"host": "web-1"}, ["`web-1`", "host names are not resolved"]),
        ({"host": "::1"}, ["`0:0:0:0:0:0:0:1`"]),
        ({"host": "10.0.0.*"}, ["10.0.0.0/8"]),
        ({"host": "0.0.0.0"}, ["for every host, use `*`"]),  # noqa: S104 - nothing is bound to it
        ({"host": "10.1.2.3/8"}, ["the whole range `10.0.0.0/8`"]),
        ({"host": "2001:db8::1/32"}, ["the whole range `2001:db8::/32`"]),
        ({"operation": AclOperation.IDEMPOTENT_WRITE}, ["Kafka never asks for IDEMPOTENT_WRITE on a TOPIC"]),
    ]:
        with subtests.test(fields=fields, words=words):
            (told,) = doubts_of_acl(GOOD._replace(**fields))  # type: ignore[arg-type]  # one field of any type
            assert [word for word in words if word not in told] == []


def test_of_a_super_user_the_wildcard_is_doubted_too() -> None:
    assert list(doubts_of_principal("User:admin")) == []
    assert "part of this name, not a wildcard" in "".join(doubts_of_principal("User:*"))
    assert "is a single principal" in "".join(doubts_of_principal("User:a,User:b"))


_TEXTS = st.text(max_size=40) | st.text(st.sampled_from("*:/, .aU\x1b\n10"), max_size=40)


_CONCRETE = [each for each in ResourceType if each > ResourceType.ANY]


@given(_TEXTS, _TEXTS, _TEXTS, st.sampled_from(_CONCRETE), st.sampled_from(PatternType))
def test_whatever_stands_there_it_is_told_on_lines_that_move_no_cursor(
    name: str, principal: str, host: str, resource_type: ResourceType, pattern_type: PatternType
) -> None:
    acl = GOOD._replace(
        resource_name=name, principal=principal, host=host, resource_type=resource_type, pattern_type=pattern_type
    )
    for each in doubts_of_acl(acl):
        assert each.isprintable()
        assert len(each) < 1_000


def test_long_texts_are_cut_and_soon_read() -> None:
    for text in ("*" * 30_000, " " * 30_000, ",User" * 6_000, "a" * 30_000, "/" * 30_000):
        told = list(doubts_of_acl(GOOD._replace(resource_name=text, principal=f"User:{text}", host=text)))
        assert told
        assert max(map(len, told)) < 1_000


def test_operations_that_a_resource_has_are_not_doubted(subtests: pytest.Subtests) -> None:
    for resource_type in _CONCRETE:
        with subtests.test(resource_type=resource_type):
            for operation in supported_operations(resource_type):
                told = doubts_of_acl(
                    GOOD._replace(resource_type=resource_type, operation=operation, resource_name="User:a-b")
                )
                assert not [each for each in told if "Kafka never asks" in each]
