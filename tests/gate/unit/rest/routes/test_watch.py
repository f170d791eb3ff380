"""What watch refuses before the first byte: headers that it does not know, positions that are not of the history."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from app.core.epochs import Standing, is_later, next_epoch
from app.core.token import Token
from tests.fakes import FakeFeed
from tests.klamm import InProcess, acl

HUGE = (1 << 63) - 1
FOLLOWER = {"klamm-epochs": "1"}
BROWSER = {"accept": "text/event-stream"}


async def refused(service: InProcess, after: Token, status: int, **headers: str) -> Any:  # noqa: ANN401 - JSON
    reply = await service.client.get("/v1/watch", params={"after": str(after)}, headers=headers)
    assert reply.status_code == status, reply.text
    return reply.json()


async def passed(service: InProcess, after: Token, **headers: str) -> bool:
    """Whether a stream would begin. (The client in tests reads a reply to its end, which a stream has not.)"""
    try:
        await service.authorizer.continues(
            after, with_epochs=bool(headers), is_follower="klamm-epochs" in headers, asked_by=()
        )
    except Exception:  # noqa: BLE001 - each refusal is one
        return False
    return True


@pytest.mark.parametrize("value", ["0", "2", "true", "1,1", "", "01", " 1 2"])
async def test_any_other_value_of_klamm_epochs_is_refused(service: InProcess, value: str) -> None:
    problem = await refused(service, Token(service.store.epoch, 0), 400, **{"klamm-epochs": value})
    assert "`Klamm-Epochs`" in problem["detail"]


async def test_klamm_epochs_twice_is_refused(service: InProcess) -> None:
    headers = [("klamm-epochs", "1"), ("Klamm-Epochs", "1")]
    reply = await service.client.get("/v1/watch", params={"snapshot": "true"}, headers=headers)
    assert reply.status_code == 400
    assert "`Klamm-Epochs`" in reply.json()["detail"]


@pytest.mark.parametrize("value", ["", ",", "a,,b", "a b", "ä", "a" * 65, ",".join("a" * 17), "a,", "$(id)"])
async def test_list_of_followers_is_read_strictly(service: InProcess, value: str) -> None:
    headers = [(b"klamm-epochs", b"1"), (b"klamm-followers", value.encode())]
    reply = await service.client.get("/v1/watch", params={"after": str(Token(service.store.epoch, 0))}, headers=headers)
    assert reply.status_code == 400
    assert "`Klamm-Followers`" in reply.json()["detail"]


async def test_followers_that_ask_for_one_another_are_passed_on(service: InProcess) -> None:
    lost = Token(uuid4(), 7)
    service.store.begin_epoch()
    await refused(service, lost, 409, **FOLLOWER, **{"klamm-followers": "one,another"})
    feed = service.authorizer._feed
    assert isinstance(feed, FakeFeed)
    assert feed.asked_by == [["one", "another"]]


async def test_position_ahead_of_the_store_makes_it_begin_an_epoch_and_is_lost(service: InProcess) -> None:
    await service.create(acl("orders"))
    old = service.store.epoch

    problem = await refused(service, Token(old, HUGE), 409, **FOLLOWER)

    assert problem["code"] == "TOKEN_EPOCH_MISMATCH"
    assert is_later(service.store.epoch, old)
    await service.authorizer.wait_for(str(Token(service.store.epoch, 1)))
    assert await passed(service, Token(old, 1), **FOLLOWER)
    assert (await refused(service, Token(old, 2), 409, **FOLLOWER))["code"] == "TOKEN_EPOCH_MISMATCH"


async def test_token_of_an_ordinary_caller_begins_no_epoch(service: InProcess) -> None:
    service.give_up_soon()
    old = service.store.epoch
    for headers in ({}, BROWSER):
        problem = await refused(service, Token(old, HUGE), 503, **headers)
        assert problem["code"] == "OFFSET_NOT_AVAILABLE"
    body = {"context": {"principal": "User:alice", "client_address": "10.1.2.3"}, "actions": []}
    assert (await service.send("/v1/authorize", {**body, "at_least": str(Token(old, HUGE))})).status_code == 503
    assert service.store.epoch == old


async def test_epoch_that_no_store_has_begun_is_refused_by_a_code_of_its_own(service: InProcess) -> None:
    forged = next_epoch(service.store.now() + timedelta(days=400), [], uuid4())
    problem = await refused(service, Token(forged, 3), 409, **FOLLOWER)
    assert problem["code"] == "TOKEN_EPOCH_INVALID"
    assert not problem["retriable"]


async def test_nobody_is_told_that_a_position_is_lost_while_the_store_is_away(service: InProcess) -> None:
    service.give_up_soon()
    service.store.unreachable = True
    for position in (Token(service.store.epoch, 9), Token(uuid4(), 9)):
        assert (await refused(service, position, 503, **FOLLOWER))["code"] == "STORE_UNAVAILABLE"


async def test_store_that_never_answers_is_told_as_one_that_is_away(
    service: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> Standing:
        await asyncio.Event().wait()
        raise AssertionError

    service.give_up_soon()
    monkeypatch.setattr(service.authorizer._feed, "standing_of", never)
    problem = await refused(service, Token(uuid4(), 9), 503, **FOLLOWER)
    assert problem["code"] == "STORE_UNAVAILABLE"


async def test_token_of_an_older_epoch_needs_the_header(subtests: pytest.Subtests, service: InProcess) -> None:
    for headers, status in [(FOLLOWER, None), (BROWSER, None), ({}, 409)]:
        with subtests.test(headers=headers, status=status):
            await service.create(acl("orders"))
            old = Token(service.store.epoch, 1)
            service.store.begin_epoch()
            await service.create(acl("orders", operation="WRITE"))
            assert await passed(service, old, **headers) is (status is None)
            if status is not None:
                assert "Klamm-Epochs" in (await refused(service, old, status))["detail"]


async def test_without_the_header_an_older_epoch_is_refused_though_nobody_can_say_that_it_is_lost(
    service: InProcess,
) -> None:
    """A follower of a service of the version before knows no epoch but its own, and has nobody to ask."""
    service.store.begin_epoch()
    await service.create(acl("orders"))
    service.give_up_soon()
    service.store.unreachable = True
    assert "snapshot=true" in (await refused(service, Token(uuid4(), 9), 409))["detail"]
