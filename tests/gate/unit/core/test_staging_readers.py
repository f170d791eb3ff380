"""Readers that have begun before a commit and go on after it."""

import pytest

from app.core.authorize import Authorization
from app.core.image import StagedTransaction
from app.core.index.search import search
from app.core.index.table import sort_key
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from tests.chains import gone, put, transaction
from tests.images import image_of, numbered
from tests.staged import STARTUP
from tests.strategies import ADDRESSES
from tests.updates import topic


@pytest.mark.parametrize("at", ["many names", "many principals", "many hosts"])
def test_a_list_goes_on_over_commits(at: str) -> None:
    orders = topic("orders")
    base = {
        "many names": [topic(f"t{n:05d}") for n in range(2_500)],
        "many principals": [topic("orders", f"User:{n:05d}") for n in range(2_500)],
        "many hosts": [orders._replace(host=f"10.0.{n // 250}.{n % 250}") for n in range(2_500)],
    }[at]
    stored = numbered(base)
    image = image_of(stored, STARTUP)
    listing = search(image.index, AclBindingFilter())
    listed = next(listing)
    staying = stored[::5]
    going = [acl for acl in stored if acl not in set(staying)]
    coming = [acl.binding._replace(operation=AclOperation.WRITE) for acl in going]
    halves = (
        [gone(acl.binding, acl.id.int) for acl in going],
        [put(binding, number) for number, binding in enumerate(coming, 1)],
    )
    for drafts in halves:
        staged = StagedTransaction(image, transaction(image.offset, image.hash, drafts))
        for number, _ in enumerate(staged.steps()):
            if number % 1_000 == 0:
                listed += next(listing, [])
        image = staged.commit()
        listed += next(listing, [])
        for _ in staged.tidy():
            pass
    for step in listing:
        listed += step
    keys = [sort_key(acl.binding) for acl in listed]
    assert keys == sorted(set(keys))
    stays = set(staying)
    assert [acl for acl in listed if acl in stays] == sorted(staying, key=lambda acl: sort_key(acl.binding))
    assert {acl.binding for acl in listed} <= {*base, *coming}


def test_a_caller_that_was_looked_up_before_the_commit_sees_the_whole_of_it() -> None:
    image = image_of(numbered([topic("a"), topic("b")]), AuthorizerConfig())
    held = Authorization(image, "User:alice", parse_address(ADDRESSES[0]))
    records = transaction(0, image.hash, [gone(topic("a"), 1 << 64 | 1), gone(topic("b"), 2 << 64 | 2)])
    staged = StagedTransaction(image, records)
    for _ in staged.steps():
        assert held.decide(AclOperation.READ, ResourceType.TOPIC, "a").allowed
        assert held.decide(AclOperation.READ, ResourceType.TOPIC, "b").allowed
    staged.commit()
    assert not held.decide(AclOperation.READ, ResourceType.TOPIC, "a").allowed
    assert not held.decide(AclOperation.READ, ResourceType.TOPIC, "b").allowed
