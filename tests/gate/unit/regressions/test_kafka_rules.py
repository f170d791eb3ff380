"""Published faults of Kafka's authorizer, each shown not to be Klamm's: what ACLs mean."""

from itertools import permutations

import pytest

from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.index.search import search
from app.core.kafka.codes import AclOperation, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig, parse_configs
from app.core.kafka.errors import AuthorizerNotReadyException, PoisonedRecordException
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from app.core.kafka.validation import validate_new_acl
from tests.chains import gone, put, transaction
from tests.dumps import dump
from tests.gate.unit.regressions.acls import ADDRESS, DESCRIBE, READ, TOPIC, WRITE, allow, allowed, deny, prefix
from tests.images import image_of, numbered


@pytest.mark.parametrize("removed", range(4))
def test_cve_2024_27309_removing_one_acl_of_a_resource_leaves_the_others_and_their_deny(removed: int) -> None:
    """3.5.0 to 3.6.1: after one of three or more ACLs on a resource went, the resource was treated as if it had one."""
    acls = [
        allow("orders", "User:*"),
        deny("orders", "User:mallory"),
        allow("orders", "User:bob", WRITE),
        deny("orders", "User:*", AclOperation.DELETE),
    ]
    image = image_of(numbered(acls), AuthorizerConfig(allow_everyone_if_no_acl_found=True))
    image.index.remove(acls[removed])
    left = [acl for acl in acls if acl != acls[removed]]
    assert dump(image.index)["count"] == 3
    assert {acl.binding for step in search(image.index, AclBindingFilter()) for acl in step} == set(left)
    assert allowed(image, "User:alice", READ, "orders") is (acls[0] in left)
    assert allowed(image, "User:mallory", READ, "orders") is (acls[0] in left and acls[1] not in left)
    assert allowed(image, "User:bob", WRITE, "orders") is (acls[2] in left)
    assert not allowed(image, "User:bob", AclOperation.DELETE, "orders")
    assert not allowed(image, "User:alice", WRITE, "orders")


def test_cve_2024_27309_three_acls_with_a_deny_two_left() -> None:
    acls = [allow("orders"), deny("orders", "User:*", WRITE), allow("orders", operation=WRITE)]
    image = image_of(numbered(acls))
    image.index.remove(acls[0])
    assert not allowed(image, "User:alice", WRITE, "orders")
    assert not allowed(image, "User:alice", READ, "orders")
    image.index.remove(acls[1])
    assert allowed(image, "User:alice", WRITE, "orders")


def test_cve_2018_1288_cluster_action_comes_from_an_acl_or_a_super_user_alone() -> None:
    everything_else = [
        allow("kafka-cluster", operation=operation)._replace(resource_type=ResourceType.CLUSTER)
        for operation in (AclOperation.ALTER, AclOperation.CREATE, AclOperation.IDEMPOTENT_WRITE, DESCRIBE)
    ]
    asked = Authorization(image_of(numbered(everything_else)), "User:alice", ADDRESS)
    assert not asked.decide(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster").allowed


def test_cve_2018_17196_no_action_is_implied_by_its_neighbour() -> None:
    image = image_of(numbered([allow("orders", operation=WRITE)]))
    asked = Authorization(image, "User:alice", ADDRESS)
    assert asked.decide(WRITE, TOPIC, "orders").allowed
    assert not asked.decide(WRITE, ResourceType.TRANSACTIONAL_ID, "orders").allowed
    assert not asked.decide(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "kafka-cluster").allowed


def test_kafka_14265_every_prefix_of_a_name_counts() -> None:
    """Prefixes foobar, fooa and f; asking foobar missed f."""
    acls = [prefix("foobar", WRITE), prefix("fooa", WRITE), prefix("f")]
    for order in permutations(acls):
        image = image_of(numbered(order))
        assert allowed(image, "User:alice", READ, "foobar")
        assert allowed(image, "User:alice", READ, "fooa")
        assert not allowed(image, "User:alice", WRITE, "foo")


def test_kafka_7702_a_prefix_may_be_one_character() -> None:
    image = image_of(numbered([prefix("f")]))
    assert [name for name in ("f", "foo", "F", "af", "") if allowed(image, "User:alice", READ, name)] == ["f", "foo"]


def test_kafka_13697_an_acl_for_all_covers_every_operation(subtests: pytest.Subtests) -> None:
    for operation in list(AclOperation)[2:]:
        with subtests.test(operation=operation):
            image = image_of(numbered([allow("orders", operation=AclOperation.ALL)]))
            assert allowed(image, "User:alice", operation, "orders")
            denying = image_of(
                numbered([allow("orders", operation=operation), deny("orders", operation=AclOperation.ALL)])
            )
            assert not allowed(denying, "User:alice", operation, "orders")


def test_kafka_13698_a_host_is_an_address_and_never_a_name() -> None:
    local = allow("orders")._replace(host="localhost")
    asked = Authorization(image_of(numbered([local])), "User:alice", parse_address("127.0.0.1"))
    assert not asked.decide(READ, TOPIC, "orders").allowed
    exact = allow("orders")._replace(host="127.0.0.1")
    asked = Authorization(image_of(numbered([exact])), "User:alice", parse_address("127.0.0.1"))
    assert asked.decide(READ, TOPIC, "orders").allowed


@pytest.mark.parametrize("value", ["true", "TRUE", " True "])
def test_kafka_14435_allow_everyone_if_no_acl_found_is_heeded(value: str) -> None:
    config = parse_configs({"allow.everyone.if.no.acl.found": value})
    image = image_of(numbered([allow("orders")]), config)
    assert allowed(image, "User:bob", READ, "payments")
    assert not allowed(image, "User:bob", READ, "orders")
    image.index.remove(allow("orders"))
    assert allowed(image, "User:bob", READ, "orders")


def test_kafka_14733_an_acl_on_an_empty_name_is_refused_yet_the_name_may_be_asked_about() -> None:
    assert validate_new_acl(allow("")) is not None
    assert allowed(image_of(numbered([allow("*")])), "User:alice", READ, "")
    assert not allowed(image_of(numbered([prefix("a")])), "User:alice", READ, "")


def test_kafka_13889_an_acl_may_come_and_go_within_one_transaction() -> None:
    """Create and delete in one delta: the removal of an id that the image had never held threw."""
    image = image_of(numbered([allow("other")]))
    before = dump(image.index)
    after = image.apply(transaction(0, image.hash, [put(allow("orders"), 7), gone(allow("orders"), 7)]))
    assert after.offset == 2
    assert dump(after.index) == before


def test_kafka_14214_a_later_allow_is_never_seen_without_the_earlier_deny() -> None:
    """Both stand in one transaction: before it neither is seen, after it both, and half of it is refused."""
    image = image_of([])
    records = transaction(0, image.hash, [put(deny("orders"), 1), put(allow("orders", operation=AclOperation.ALL), 2)])
    with pytest.raises(PoisonedRecordException, match="incomplete"):
        image.apply(records[:1])
    assert not allowed(image, "User:alice", WRITE, "orders")
    after = image.apply(records)
    assert allowed(after, "User:alice", WRITE, "orders")
    assert not allowed(after, "User:alice", READ, "orders")


@pytest.mark.parametrize("value", ["true", "false"])
def test_kafka_13649_nobody_but_a_super_user_is_answered_before_the_load(value: str) -> None:
    startup = parse_configs({"super.users": "User:root", "allow.everyone.if.no.acl.found": value})
    image = AuthorizerImage.empty(startup)
    assert allowed(image, "User:root", READ, "orders")
    with pytest.raises(AuthorizerNotReadyException):
        allowed(image, "User:alice", READ, "orders")


def test_kafka_10619_authorize_by_resource_type_knows_prefixes_and_wildcards(subtests: pytest.Subtests) -> None:
    for acls, expected in [
        ([prefix("orders")], True),
        ([allow("*")], True),
        ([allow("orders", "User:*")], True),
        ([prefix("orders"), deny("*")], False),
        ([prefix("orders"), deny("o")._replace(pattern_type=PatternType.PREFIXED)], False),
        ([prefix("orders"), deny("orders.eu")._replace(pattern_type=PatternType.PREFIXED)], True),
        ([allow("orders"), deny("orders", "User:*")], False),
    ]:
        with subtests.test(acls=acls, expected=expected):
            asked = Authorization(image_of(numbered(acls)), "User:alice", ADDRESS)
            assert asked.authorize_by_resource_type(READ, TOPIC).allowed is expected
