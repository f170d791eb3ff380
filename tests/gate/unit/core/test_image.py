from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import image as images
from app.core.digest import digest_of
from app.core.image import AuthorizerImage, ImageBuilder
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig, parse_configs
from app.core.kafka.errors import PoisonedRecordException, UnknownRecordException
from app.core.kafka.hosts import parse_address
from app.core.records import GENESIS_HASH, Record
from app.core.token import Token
from tests.chains import config, gone, put, transaction
from tests.dumps import dump
from tests.images import EPOCH, HEAD, image_of, index_of, numbered
from tests.strategies import binding_lists
from tests.updates import topic

ORDERS = topic("orders")
STARTUP = parse_configs({"super.users": "User:root", "allow.everyone.if.no.acl.found": "true"})


def fresh() -> AuthorizerImage:
    return image_of([], STARTUP)


def applied(image: AuthorizerImage, *drafts: Record) -> AuthorizerImage:
    return image.apply(transaction(image.offset, image.hash, drafts))


def test_before_the_load_there_is_nothing_but_the_start_up_configuration() -> None:
    image = AuthorizerImage.empty(STARTUP)
    assert (image.config, image.epoch, image.cluster_id, image.token) == (STARTUP, None, None, None)
    assert (image.offset, image.acl_count, image.loading_complete) == (-1, -1, False)


def test_what_is_kept_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_MOST_ASKERS", 2)
    image = fresh()
    for number in (1, 2, 3, 3, 1):
        address = parse_address(f"10.0.0.{number}")
        assert image.asker(address) is image.asker(address)
        assert len(image._askers) <= 2


def test_a_built_image_stands_at_the_snapshots_head() -> None:
    head = replace(HEAD, last_offset=41, hash=b"h" * 32)
    builder = ImageBuilder(STARTUP)
    builder.set_configs({"super.users": "User:stored"})
    acls = numbered([ORDERS, topic("payments")])
    builder.add_rows([acls[0].row])
    builder.add_rows([acls[1].row])
    image = builder.build(head)
    assert (image.epoch, image.cluster_id, image.offset, image.hash) == (EPOCH, "klamm-test", 41, b"h" * 32)
    assert image.token == Token(EPOCH, 41)
    assert (image.acl_count, image.loading_complete) == (2, True)
    assert image.config.super_users == {"User:stored"}
    assert image.config.allow_everyone_if_no_acl_found
    assert image.startup is STARTUP
    assert dump(image.index) == dump(index_of(acls))


def test_a_transaction_moves_the_image_to_its_last_offset() -> None:
    image = fresh()
    records = transaction(0, GENESIS_HASH, [put(ORDERS, 1), put(topic("payments"), 2), gone(ORDERS, 1)])
    after = image.apply(records)
    assert (after.offset, after.hash) == (3, records[-1].hash)
    assert after.acl_count == 1
    assert after.config is image.config
    assert (image.offset, image.hash) == (0, GENESIS_HASH)
    further = applied(after, put(ORDERS, 3))
    assert further.offset == 4
    assert further.index.find(ORDERS) == StandardAcl(UUID(int=3), ORDERS)


def test_a_configuration_changes_with_its_transaction_and_null_returns_it_to_the_start() -> None:
    changed = applied(
        fresh(), config("super.users", "User:ops"), config("allow.everyone.if.no.acl.found", "false"), put(ORDERS)
    )
    assert changed.config == AuthorizerConfig(super_users=frozenset({"User:ops"}))
    assert changed.overrides == {"super.users": "User:ops", "allow.everyone.if.no.acl.found": "false"}
    back = applied(changed, config("super.users", None))
    assert back.config == AuthorizerConfig(super_users=frozenset({"User:root"}))
    assert back.overrides == {"allow.everyone.if.no.acl.found": "false"}
    assert changed.overrides["super.users"] == "User:ops"
    assert applied(back, config("audit.level", None)).config == back.config


def test_a_property_of_a_later_version_is_kept_and_proved_but_has_no_effect() -> None:
    before = built({})
    changed = applied(before, config("later.property", "on"), config("audit.level", "WARN"))
    assert changed.overrides == {"later.property": "on", "audit.level": "WARN"}
    assert changed.unknown_configs == ["later.property"]
    assert changed.config == replace(before.config, audit_level="WARN")
    assert changed.digest == digest_of([], changed.overrides)
    loaded = built(changed.overrides)
    assert (loaded.overrides, loaded.config, loaded.digest) == (changed.overrides, changed.config, changed.digest)
    gone_again = applied(loaded, config("later.property", None), config("audit.level", None))
    assert (gone_again.overrides, gone_again.unknown_configs, gone_again.config) == ({}, [], before.config)
    assert gone_again.digest == before.digest


def built(overrides: Mapping[str, str]) -> AuthorizerImage:
    builder = ImageBuilder(STARTUP)
    builder.set_configs(overrides)
    builder.check_digest(replace(HEAD, digest=digest_of([], overrides)))
    return builder.build(HEAD)


@given(st.data(), binding_lists)
def test_following_the_feed_ends_where_a_snapshot_begins(data: st.DataObject, acls: list[AclBinding]) -> None:
    stored = numbered(acls)
    image = fresh()
    for acl in stored:
        image = applied(image, put(acl.binding, acl.id.int))
    going = data.draw(st.lists(st.sampled_from(stored), unique=True)) if stored else []
    if going:
        image = applied(image, *(gone(acl.binding, acl.id.int) for acl in going))
    left = [acl for acl in stored if acl not in going]
    assert dump(image.index) == dump(index_of(left))
    assert image.offset == len(stored) + len(going)


def changed(acl: AclBinding, **fields: object) -> AclBinding:
    return acl._replace(**fields)  # type: ignore[arg-type]  # codes that no word stands for


def poisonings() -> dict[str, tuple[list[Record], str]]:
    good = transaction(1, b"\1" * 32, [put(topic("a"), 2), put(topic("b"), 3)])
    return {
        "a hole": ([replace(good[0], offset=3), good[1]], "the feed has a gap: offset 3 came instead"),
        "half a transaction": (good[:1], "the transaction is incomplete"),
        "two transactions": (
            [*transaction(1, b"\1" * 32, [put(topic("a"), 2)]), *good[1:]],
            "the transaction is incomplete",
        ),
        "a broken chain": ([good[0], replace(good[1], hash=b"x" * 32)], "the hash chain is broken"),
        "a tampered field": ([replace(good[0], actor="User:mallory"), good[1]], "the hash chain is broken"),
        "another chain": (transaction(1, b"\2" * 32, [put(topic("a"), 2)]), "the hash chain is broken"),
        "an ACL twice": (transaction(1, b"\1" * 32, [put(topic("a"), 2), put(topic("a"), 3)]), "already exists"),
        "an ACL that is there": (transaction(1, b"\1" * 32, [put(topic("a"), 2), put(ORDERS, 3)]), "already exists"),
        "a removal of nothing": (
            transaction(1, b"\1" * 32, [put(topic("a"), 2), gone(topic("b"), 3)]),
            "there is no ACL",
        ),
        "a removal under another id": (
            transaction(1, b"\1" * 32, [put(topic("a"), 2), gone(ORDERS, 9)]),
            "there is no ACL",
        ),
        "a removal twice": (transaction(1, b"\1" * 32, [gone(ORDERS), gone(ORDERS)]), "there is no ACL"),
        "a bad value": (
            transaction(1, b"\1" * 32, [put(topic("a"), 2), config("super.users", "nobody")]),
            "expected a string in format principalType:principalName but got nobody",
        ),
        "a property without a name": (
            transaction(1, b"\1" * 32, [put(topic("a"), 2), config("", "x")]),
            "no property can have this name or value",
        ),
        "an unknown property that no store holds": (
            transaction(1, b"\1" * 32, [put(topic("a"), 2), config("later.property", "x\0")]),
            "no property can have this name or value",
        ),
        "an unknown code": (
            transaction(1, b"\1" * 32, [put(changed(ORDERS, operation=AclOperation.ANY), 2)]),
            "the ACL has unknown codes",
        ),
    }


def test_a_poisoned_transaction_changes_nothing(subtests: pytest.Subtests) -> None:
    for case in poisonings():
        with subtests.test(case=case):
            records, why = poisonings()[case]
            image = replace(applied(fresh(), put(ORDERS)), hash=b"\1" * 32)
            before = dump(image.index)
            with pytest.raises(PoisonedRecordException, match=why.replace("`", ".")) as poisoned:
                image.apply(records)
            assert 2 <= poisoned.value.offset <= 3
            assert dump(image.index) == before


def test_a_transaction_may_put_what_it_removed_and_remove_what_it_put() -> None:
    image = applied(fresh(), put(ORDERS, 1))
    image = applied(image, gone(ORDERS, 1), put(ORDERS, 2), gone(ORDERS, 2), put(ORDERS, 3))
    assert image.index.find(ORDERS) == StandardAcl(UUID(int=3), ORDERS)
    assert dump(image.index) == dump(index_of([StandardAcl(UUID(int=3), ORDERS)]))


def test_a_snapshot_with_unknown_codes_is_poisoned(subtests: pytest.Subtests) -> None:
    cases: Iterable[dict[str, object]] = [
        {"resource_type": ResourceType.ANY},
        {"resource_type": ResourceType.UNKNOWN},
        {"resource_type": 8},
        {"pattern_type": PatternType.MATCH},
        {"pattern_type": 5},
        {"operation": AclOperation.ANY},
        {"operation": 16},
        {"permission_type": AclPermissionType.ANY},
        {"permission_type": 4},
    ]
    for codes in cases:
        with subtests.test(codes=codes):
            builder = ImageBuilder(STARTUP)
            acl = StandardAcl(UUID(int=1), changed(ORDERS, **codes))
            with pytest.raises(UnknownRecordException, match="unknown codes"):
                builder.add_rows([acl.row])


def test_a_snapshot_with_a_bad_configuration_is_poisoned() -> None:
    with pytest.raises(PoisonedRecordException, match="Not a number of type LONG"):
        ImageBuilder(STARTUP).set_configs({"max.staleness.ms": "soon"})
