"""authorize where callers are told apart: before waits, beside others, with headers that come twice, within a quota."""

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from app.core.token import Token
from app.rest.callers.rate_limits import RateLimit
from app.rest.http.admission import BOUNDS
from tests.callers import CALLERS
from tests.klamm import READ_ORDERS, InProcess, in_process


def body_of(principal: str, at_least: str | None = None) -> dict[str, object]:
    body: dict[str, object] = {
        "context": {"principal": principal, "client_address": "10.1.2.3"},
        "actions": [READ_ORDERS],
    }
    return body if at_least is None else {**body, "at_least": at_least}


def token_ahead(it: InProcess, offsets: int) -> str:
    token = it.authorizer.image.token
    assert token is not None
    return str(Token(token.epoch, token.offset + offsets))


async def test_a_principal_out_of_bounds_is_refused_alike_whatever_is_waited_for(tmp_path: Path) -> None:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as it:
        replies = [
            await it.send("/v1/authorize", body_of("User:admin", at_least), "sidecar")
            for at_least in (None, token_ahead(it, 0), token_ahead(it, 5), str(Token(uuid4(), 1)), "garbage")
        ]
        assert {(reply.status_code, reply.text) for reply in replies} == {(403, replies[0].text)}


async def test_who_need_not_wait_takes_no_place_from_those_who_do(tmp_path: Path) -> None:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as it:
        waiting = it.admission.pools["waiting"]
        for _ in range(BOUNDS["waiting"].places):
            await waiting.enter(0, None)
        now, later = token_ahead(it, 0), token_ahead(it, 5)
        assert (await it.send("/v1/authorize", body_of("User:alice", now), "anyone")).status_code == 200
        assert (await it.send("/v1/authorize", body_of("User:alice", later), "anyone")).status_code == 429


async def test_other_headers_may_come_twice(tmp_path: Path) -> None:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as it:
        await it.send("/v1/authorize", body_of("User:alice"), "anyone")
        content = json.dumps(body_of("User:alice")).encode()
        shown = (b"authorization", f"Bearer {it.tokens['anyone']}".encode())
        headers = [(b"via", b"a"), (b"via", b"b"), (b"content-type", b"application/json"), shown]
        ids = [(b"x-request-id", b"one"), (b"x-request-id", b"two")]
        reply = it.app.answer([*headers, *ids], content, ())
        assert reply is not None
        assert b"one" not in reply
        assert b"two" not in reply
        assert it.app.answer([*headers, shown], content, ()) is None


class Quota(RateLimit):
    """Counts what is taken of it."""

    def __init__(self) -> None:
        super().__init__(1)
        self.taken = 0

    def has_room(self, now: float) -> bool:  # noqa: ARG002 - as its base
        return True

    def take(self, now: float) -> bool:  # noqa: ARG002 - as its base
        self.taken += 1
        return True


async def test_what_is_refused_for_its_principal_costs_the_quota_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = Quota()
    monkeypatch.setattr(
        "tests.callers.CALLERS",
        {name: replace(caller, limit=quota) for name, caller in CALLERS.items()},
    )
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as it:
        assert (await it.send("/v1/authorize", body_of("User:orders-1"), "sidecar")).status_code == 200
        assert quota.taken == 1
        assert it.at_once(f"Bearer {it.tokens['sidecar']}", body_of("User:admin")) is None
        assert quota.taken == 1
        assert it.at_once(f"Bearer {it.tokens['sidecar']}", body_of("User:orders-1")) == ["DENIED"]
        assert quota.taken == 2


async def test_a_principal_without_a_type_is_refused_before_any_wait(service: InProcess) -> None:
    token = service.authorizer.image.token
    assert token is not None
    ahead = str(Token(token.epoch, token.offset + 5))
    reply = await service.send("/v1/authorize", body_of("alice", ahead))
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (400, "/context/principal")
