"""Batches that take long go in slices: answered, counted and logged as in one step, and all at one offset."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import CreateAcls, DeleteAcls
from app.runtime import deciding, pace
from tests.klamm import ADMIN, ALICE, InProcess, acl
from tests.updates import binding, new

NAMES = [f"t{at}" for at in range(300)]
ACTIONS = [{"operation": "READ", "resource_type": "TOPIC", "resource_name": name} for name in NAMES]
BODY = {"context": ALICE, "actions": ACTIONS, "with_rules": True}


@pytest.fixture
def breathless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every breath is taken, and nothing takes too long, however fast the machine is."""
    monkeypatch.setattr(pace, "_STEP_S", 0.0)
    monkeypatch.setattr(deciding, "perf_counter", lambda: 0.0)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice takes too long to go on at once."""
    clock: Iterator[int] = itertools.count()
    monkeypatch.setattr(deciding, "perf_counter", lambda: float(next(clock)))


def at_once(service: InProcess, body: dict[str, Any]) -> dict[str, Any] | None:
    content = json.dumps(body).encode()
    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(content)),
    ]
    reply = service.app.answer(headers, content, ())
    return None if reply is None else json.loads(reply.partition(b"\r\n\r\n")[2])


@pytest.mark.usefixtures("breathless")
async def test_every_way_gives_the_same(service: InProcess) -> None:
    await service.create(*(acl(name) for name in NAMES[::3]))
    await service.create(*(acl(name, permission_type="DENY") for name in NAMES[1::3]))
    short = [
        await service.post("/v1/authorize", {"context": ALICE, "actions": [*ACTIONS[at : at + 60]], "with_rules": True})
        for at in range(0, 300, 60)
    ]
    expected = {
        "results": [each for some in short for each in some["results"]],
        "rules": [each for some in short for each in some["rules"]],
        "token": short[0]["token"],
    }
    assert expected["results"] == ["ALLOWED", "DENIED", "DENIED"] * 100
    assert (
        await service.post("/v1/authorize", {"context": ALICE, "actions": [*ACTIONS], "with_rules": True}) == expected
    )
    assert at_once(service, BODY) == expected
    audited = [line.partition("Principal")[2] for line in service.audit_lines()]
    assert len(audited) == 600
    assert audited[:200] == audited[200:400] == audited[400:]


@pytest.mark.usefixtures("slow")
async def test_what_would_take_long_is_left_to_the_route_and_leaves_no_trace(service: InProcess) -> None:
    await service.create(acl("t1"))
    counted = list(service.metrics.decisions)
    assert at_once(service, BODY) is None
    assert list(service.metrics.decisions) == counted
    assert (await service.authorize(ALICE, *ACTIONS)).count("ALLOWED") == 1
    assert at_once(service, {**BODY, "actions": ACTIONS[:64]}) is not None


async def test_a_word_that_is_none_is_named_by_its_place_in_the_batch(service: InProcess) -> None:
    wrong = [*ACTIONS[:200], {**ACTIONS[200], "operation": "RAED"}, *ACTIONS[201:]]
    reply = await service.send("/v1/authorize", {"context": ALICE, "actions": wrong})
    assert [each["pointer"] for each in reply.json()["errors"]] == ["/actions/200/operation"]


@pytest.mark.usefixtures("breathless")
async def test_all_of_a_reply_is_at_one_offset_whatever_is_written_meanwhile(service: InProcess) -> None:
    topics = CreateAcls(new([binding(acl(name)) for name in NAMES]), "User:test")
    groups = CreateAcls(
        new([binding(acl(name, operation="DESCRIBE", resource_type="GROUP")) for name in NAMES]), "User:test"
    )
    everything = DeleteAcls([AclBindingFilter(principal="User:alice")], "User:test")
    done = asyncio.Event()

    async def write() -> None:
        while not done.is_set():
            for mutations in ([topics, groups], [everything]):
                service.store.commit(mutations)
                await asyncio.sleep(0.001)

    writer = asyncio.create_task(write())
    seen = set()
    resources = [{"resource_type": "TOPIC", "resource_name": name} for name in NAMES]
    try:
        for _ in range(15):
            results = await service.authorize(ALICE, *ACTIONS)
            shown = (await service.send("/v1/list-groups", {"context": ALICE, "groups": NAMES})).json()["groups"]
            reply = await service.send("/v1/authorized-operations", {"context": ALICE, "resources": resources})
            operations = {tuple(each["operations"]) for each in reply.json()["results"]}
            assert len(set(results)) == len(operations) == 1
            assert len(shown) in (0, len(NAMES))
            seen |= {results[0], len(shown)}
    finally:
        done.set()
        await writer
    assert len(seen) > 1
    assert (await service.send("/v1/list-groups", {"context": ADMIN, "groups": NAMES})).json()["groups"] == NAMES
