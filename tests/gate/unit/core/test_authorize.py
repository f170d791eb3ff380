"""Decisions one by one: which rule spoke, which ACL, and who may be answered at all."""

from dataclasses import replace

import pytest

from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import AuthorizerNotReadyException, InvalidRequestException
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import supported_operations, to_bit_field
from app.core.verdicts import AuthorizationResult, Rule, Verdict
from tests.images import image_of, numbered
from tests.updates import topic

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC = ResourceType.TOPIC
ADDRESS = parse_address("10.0.0.1")
EVERYONE = AuthorizerConfig(allow_everyone_if_no_acl_found=True)
ROOT = AuthorizerConfig(super_users=frozenset({"User:root"}))


def deny(binding: AclBinding) -> AclBinding:
    return binding._replace(permission_type=AclPermissionType.DENY)


def prefixed(name: str, principal: str = "User:alice") -> AclBinding:
    return topic(name, principal, PatternType.PREFIXED)


def caller(
    *acls: AclBinding, principal: str = "User:alice", address: str = "10.0.0.1", config: AuthorizerConfig | None = None
) -> Authorization:
    return Authorization(image_of(numbered(acls), config), principal, parse_address(address))


def test_the_rule_that_decides(subtests: pytest.Subtests) -> None:
    for acls, config, verdict in [
        ([], None, Verdict.DEFAULT_DENY),
        ([], EVERYONE, Verdict.DEFAULT_ALLOW),
        ([topic("orders")], None, Verdict.ALLOWED_BY_ACL),
        ([topic("orders"), deny(topic("orders"))], None, Verdict.DENIED_BY_ACL),
        ([topic("orders"), deny(topic("*"))], None, Verdict.DENIED_BY_ACL),
        ([topic("orders"), deny(prefixed("o", "User:*"))], None, Verdict.DENIED_BY_ACL),
        ([deny(topic("orders")), prefixed("orders.")], None, Verdict.DENIED_BY_ACL),
        ([topic("orders", "User:bob")], EVERYONE, Verdict.DEFAULT_DENY),
        ([topic("payments", "User:bob")], EVERYONE, Verdict.DEFAULT_ALLOW),
        ([topic("orders", "Group:*")], None, Verdict.DEFAULT_DENY),
        ([topic("orders", "User:*")], None, Verdict.ALLOWED_BY_ACL),
        ([topic("orders")._replace(host="10.0.0.2")], None, Verdict.DEFAULT_DENY),
        ([topic("orders")._replace(host="10.0.0.0/24")], None, Verdict.ALLOWED_BY_ACL),
        ([topic("orders")._replace(resource_type=ResourceType.GROUP)], EVERYONE, Verdict.DEFAULT_ALLOW),
    ]:
        with subtests.test(acls=acls, config=config, verdict=verdict):
            assert caller(*acls, config=config).decide(READ, TOPIC, "orders") is verdict


def test_a_verdict_knows_its_result_and_rule() -> None:
    assert {verdict: (verdict.allowed, verdict.result, verdict.rule) for verdict in Verdict} == {
        Verdict.SUPER_USER: (True, AuthorizationResult.ALLOWED, Rule.SUPER_USER),
        Verdict.ALLOWED_BY_ACL: (True, AuthorizationResult.ALLOWED, Rule.MATCHING_ACL),
        Verdict.DENIED_BY_ACL: (False, AuthorizationResult.DENIED, Rule.MATCHING_ACL),
        Verdict.DEFAULT_ALLOW: (True, AuthorizationResult.ALLOWED, Rule.DEFAULT_ALLOW),
        Verdict.DEFAULT_DENY: (False, AuthorizationResult.DENIED, Rule.DEFAULT_DENY),
    }


def test_super_users_pass_every_deny_and_find_no_acl_behind_it() -> None:
    root = caller(deny(topic("*", "User:root")), deny(topic("*", "User:*")), principal="User:root", config=ROOT)
    decision = root.decision(READ, TOPIC, "orders")
    assert (decision.verdict, decision.acl, decision.offset, str(decision)) == (
        Verdict.SUPER_USER,
        None,
        0,
        "SuperUser",
    )
    assert root.authorize_by_resource_type(READ, TOPIC) is Verdict.SUPER_USER
    assert root.authorized_operations(TOPIC, "orders") == to_bit_field(supported_operations(TOPIC))


def test_super_users_are_compared_as_they_are_spelled(subtests: pytest.Subtests) -> None:
    for principal in ["user:root", "User:root ", " User:root", "User:roo", "Group:root", "User:*"]:
        with subtests.test(principal=principal):
            assert caller(principal=principal, config=ROOT).decide(READ, TOPIC, "orders") is Verdict.DEFAULT_DENY


def test_before_the_load_only_super_users_are_answered() -> None:
    image = AuthorizerImage.empty(replace(ROOT, allow_everyone_if_no_acl_found=True))
    root = Authorization(image, "User:root", ADDRESS)
    assert root.decide(READ, TOPIC, "orders") is Verdict.SUPER_USER
    with pytest.raises(AuthorizerNotReadyException, match="not loaded yet"):
        Authorization(image, "User:alice", ADDRESS)


def test_without_an_authorizer_everyone_is_unrestricted() -> None:
    anyone = Authorization(image_of(numbered([deny(topic("*", "User:*"))])), "User:x", ADDRESS, unrestricted=True)
    assert anyone.is_super_user
    assert anyone.decide(READ, TOPIC, "orders").allowed


def test_the_most_specific_acl_is_named() -> None:
    order = [
        topic("orders"),
        topic("orders")._replace(host="10.0.0.0/8"),
        topic("orders", "User:*")._replace(operation=AclOperation.ALL),
        topic("orders", "User:*"),
        prefixed("ord"),
        prefixed("ord", "User:*"),
        prefixed("o"),
        prefixed("o", "User:*"),
        topic("*"),
        topic("*", "User:*"),
    ]
    others = [topic("orders")._replace(operation=WRITE), topic("order"), topic("orders")._replace(host="10.0.0.2")]
    for at, expected in enumerate(order):
        named = caller(*others, *reversed(order[at:])).decision(READ, TOPIC, "orders").acl
        assert named is not None
        assert named.binding == expected
    assert caller(*others).decision(READ, TOPIC, "orders").acl is None


def test_of_equally_specific_acls_the_first_in_list_order_is_named() -> None:
    acls = [topic("orders"), topic("orders")._replace(host="10.0.0.0/8"), topic("orders")._replace(host="10.0.0.1")]
    named = caller(*acls).decision(READ, TOPIC, "orders").acl
    assert named is not None
    assert named.binding.host == "*"


def test_hosts_that_match_but_say_something_else_are_passed_over() -> None:
    hosts = ["10.0.0.0/8", "10.0.0.2/8", "10.0.0.3/8", "10.0.0.1/16"]
    saying = [topic("orders")._replace(host=host) for host in hosts[1:]]
    writing = [topic("orders")._replace(host=host, operation=WRITE) for host in ("*", "10.0.0.1", *hosts)]
    for acls in ([*writing, *saying], [*reversed(saying), *writing]):
        named = caller(*acls).decision(READ, TOPIC, "orders").acl
        assert named is not None
        assert (named.binding.host, named.binding.operation) == ("10.0.0.1/16", READ)


def test_a_decision_prints_kafkas_words_for_its_rule() -> None:
    asked = caller(topic("orders"))
    assert str(asked.decision(READ, TOPIC, "orders")) == (
        "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=orders, patternType=LITERAL, "
        "principal=User:alice, host=*, operation=READ, permissionType=ALLOW))"
    )
    assert str(asked.decision(WRITE, TOPIC, "orders")) == "DefaultDeny"
    assert str(caller(config=EVERYONE).decision(READ, TOPIC, "orders")) == "DefaultAllow"


def test_an_implied_operation_names_the_acl_that_implies_it() -> None:
    decision = caller(topic("orders")).decision(DESCRIBE, TOPIC, "orders")
    assert decision.acl is not None
    assert decision.acl.binding == topic("orders")


def test_a_caller_called_user_star_is_an_ordinary_caller() -> None:
    asked = caller(topic("orders", "User:*"), topic("payments"), principal="User:*")
    assert asked.decide(READ, TOPIC, "orders").allowed
    assert not asked.decide(READ, TOPIC, "payments").allowed
    assert asked.authorize_by_resource_type(READ, TOPIC) is Verdict.ALLOWED_BY_ACL
    assert [acl.binding for acl in asked.matching_acls(TOPIC, "orders")] == [topic("orders", "User:*")]


@pytest.mark.parametrize("resource_type", [ResourceType.ANY, ResourceType.UNKNOWN])
def test_a_type_that_is_no_resource_has_no_operations(resource_type: ResourceType) -> None:
    with pytest.raises(InvalidRequestException, match="Not a concrete resource type"):
        caller().authorized_operations(resource_type, "orders")


@pytest.mark.parametrize("resource_type", [ResourceType.ANY, ResourceType.UNKNOWN])
def test_by_resource_type_wants_a_concrete_type(resource_type: ResourceType) -> None:
    with pytest.raises(InvalidRequestException, match="resource type"):
        caller(principal="User:root", config=ROOT).authorize_by_resource_type(READ, resource_type)


@pytest.mark.parametrize("operation", [AclOperation.ANY, AclOperation.UNKNOWN])
def test_by_resource_type_wants_a_concrete_operation(operation: AclOperation) -> None:
    with pytest.raises(InvalidRequestException, match="operation"):
        caller(principal="User:root", config=ROOT).authorize_by_resource_type(operation, TOPIC)


def test_by_resource_type_weighs_the_patterns(subtests: pytest.Subtests) -> None:
    for acls, verdict in [
        ([], Verdict.DEFAULT_DENY),
        ([topic("orders")], Verdict.ALLOWED_BY_ACL),
        ([topic("*")], Verdict.ALLOWED_BY_ACL),
        ([deny(topic("*")), topic("orders")], Verdict.DENIED_BY_ACL),
        ([deny(topic("orders")), topic("orders")], Verdict.DENIED_BY_ACL),
        ([deny(topic("orders")), topic("orders"), topic("payments")], Verdict.ALLOWED_BY_ACL),
        ([deny(prefixed("o")), topic("orders"), prefixed("or")], Verdict.DENIED_BY_ACL),
        ([deny(prefixed("orders")), prefixed("orders")], Verdict.DENIED_BY_ACL),
        ([deny(prefixed("orders.eu")), prefixed("orders")], Verdict.ALLOWED_BY_ACL),
        ([deny(topic("orders")), prefixed("orders")], Verdict.ALLOWED_BY_ACL),
        ([deny(topic("orders"))], Verdict.DENIED_BY_ACL),
        ([prefixed("h")], Verdict.ALLOWED_BY_ACL),
        ([topic("*"), deny(prefixed("h"))], Verdict.ALLOWED_BY_ACL),
        ([deny(topic("hardcode"))], Verdict.DENIED_BY_ACL),
        ([topic("hardcode")], Verdict.ALLOWED_BY_ACL),
        ([topic("orders")._replace(host="10.0.0.2")], Verdict.DEFAULT_DENY),
        ([topic("orders")._replace(host="10.0.0.0/24")], Verdict.ALLOWED_BY_ACL),
        ([topic("*")._replace(operation=WRITE)], Verdict.DEFAULT_DENY),
        ([topic("orders")._replace(operation=AclOperation.ALL)], Verdict.ALLOWED_BY_ACL),
    ]:
        with subtests.test(acls=acls, verdict=verdict):
            assert caller(*acls).authorize_by_resource_type(READ, TOPIC) is verdict


def test_by_resource_type_takes_no_implied_operation_but_on_the_probed_name() -> None:
    assert not caller(topic("orders")).authorize_by_resource_type(DESCRIBE, TOPIC).allowed
    assert caller(prefixed("h")).authorize_by_resource_type(DESCRIBE, TOPIC).allowed


def test_authorized_operations_know_the_default_and_the_denies() -> None:
    everything = to_bit_field(supported_operations(TOPIC))
    assert caller(config=EVERYONE).authorized_operations(TOPIC, "orders") == everything
    assert caller(topic("orders", "User:bob"), config=EVERYONE).authorized_operations(TOPIC, "orders") == 0
    assert caller(deny(topic("orders")), config=EVERYONE).authorized_operations(TOPIC, "orders") == 0
    allowed = caller(topic("orders"), deny(topic("*")._replace(operation=DESCRIBE)))
    assert allowed.authorized_operations(TOPIC, "orders") == 1 << READ
    everywhere = topic("orders")._replace(operation=AclOperation.ALL)
    assert caller(everywhere).authorized_operations(TOPIC, "orders") == everything


def test_the_callers_host_is_told_as_acl_hosts_are_spelled() -> None:
    assert caller(address="::ffff:10.0.0.7").host == "10.0.0.7"
    assert caller(address="2001:DB8::1").host == "2001:db8:0:0:0:0:0:1"
