import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from app.core.image import AuthorizerImage
from app.core.kafka.configs import AuthorizerConfig
from app.runtime.readiness import Readiness, State
from tests.virtual_time import freeze, in_virtual_time, now
from tests.world import OPTIONS

CONFIG = AuthorizerConfig(early_start_listeners=frozenset({"CONTROLLER"}))
FENCING = replace(CONFIG, max_staleness_ms=5_000)


def image(config: AuthorizerConfig, offset: int = 7) -> AuthorizerImage:
    return replace(AuthorizerImage.empty(config), epoch=UUID(int=1), offset=offset)


def ready_one(config: AuthorizerConfig) -> Readiness:
    readiness = Readiness(config, OPTIONS)
    readiness.loading()
    readiness.published(image(config))
    readiness.current(now())
    return readiness


@in_virtual_time
async def test_the_way_from_start_to_end() -> None:
    readiness = Readiness(CONFIG, OPTIONS)
    ways = [(readiness.state, readiness.ready(), readiness.ready("CONTROLLER"), readiness.started)]
    readiness.loading()
    ways += [(readiness.state, readiness.ready("EXTERNAL"), readiness.ready("CONTROLLER"), readiness.started)]
    readiness.published(image(CONFIG))
    readiness.current(now())
    ways += [(readiness.state, readiness.ready("EXTERNAL"), readiness.ready("CONTROLLER"), readiness.started)]
    readiness.troubled("the store is away")
    ways += [(readiness.state, readiness.ready("EXTERNAL"), readiness.ready("CONTROLLER"), readiness.started)]
    readiness.current(now())
    assert readiness.state is State.READY
    readiness.draining()
    ways += [(readiness.state, readiness.ready("EXTERNAL"), readiness.ready("CONTROLLER"), readiness.started)]
    assert ways == [
        (State.STARTING, False, True, False),
        (State.LOADING, False, True, False),
        (State.READY, True, True, True),
        (State.LAGGING, True, True, True),
        (State.DRAINING, False, False, True),
    ]


@in_virtual_time
async def test_an_old_image_is_fenced_and_comes_back() -> None:
    readiness = ready_one(FENCING)
    freeze(5)
    assert not readiness.fenced
    assert readiness.state is State.READY
    freeze(0.001)
    assert readiness.fenced
    assert readiness.state is State.FENCED
    assert not readiness.ready()
    assert readiness.ready("CONTROLLER")
    readiness.troubled("the store is away")
    assert readiness.state is State.FENCED
    readiness.current(now())
    assert readiness.ready()
    assert not readiness.fenced


@in_virtual_time
async def test_without_a_bound_age_is_told_and_nothing_else() -> None:
    readiness = ready_one(CONFIG)
    freeze(3600)
    assert readiness.age_s == 3600
    assert readiness.state is State.READY


@in_virtual_time
async def test_the_bound_follows_the_configuration_of_the_image() -> None:
    readiness = ready_one(CONFIG)
    freeze(60)
    assert not readiness.fenced
    readiness.published(image(FENCING))
    assert readiness.fenced
    readiness.published(image(replace(CONFIG, early_start_listeners=frozenset({"EXTERNAL"}))))
    assert readiness.state is State.READY
    readiness.draining()
    assert not readiness.ready("EXTERNAL")


@in_virtual_time
async def test_a_clock_that_stands_or_a_look_in_the_future_makes_no_negative_age() -> None:
    readiness = ready_one(CONFIG)
    readiness.current(now() + 1)
    assert readiness.age_s == 0


@in_virtual_time
async def test_the_process_is_ready_if_and_only_if_every_check_is_fine() -> None:
    readiness = Readiness(FENCING, OPTIONS)
    readiness.register(["CONTROLLER", "EXTERNAL"])

    def told() -> str:
        checks = readiness.checks()
        assert readiness.ready() is all(ok for _, ok, _ in checks)
        return "\n".join(f"{name} {detail}" for name, _, detail in checks)

    assert "not loaded" in told()
    readiness.loading()
    readiness.troubled("the store is away")
    assert "the store is away" in told()
    readiness.published(image(FENCING))
    readiness.current(now())
    freeze(2)
    assert "at offset 7" in told()
    assert "2.0 s ago" in told()
    readiness.troubled("record 8: unknown word")
    assert "lagging" in told()
    assert "record 8: unknown word" in told()
    freeze(60)
    assert "fenced" in told()
    readiness.current(now())
    readiness.draining()
    assert "draining" in told()


@in_virtual_time
async def test_listeners_show_and_the_latest_are_kept() -> None:
    readiness = ready_one(CONFIG)
    readiness.register([f"L{number}" for number in range(100)])
    readiness.register(["L99", "L50"])
    names = [name for name, _, _ in readiness.checks() if name.startswith("listener/")]
    assert len(names) == 64
    assert names[-2:] == ["listener/L99", "listener/L50"]


@in_virtual_time
async def test_waiting_ends_when_all_listeners_are_ready_or_at_the_deadline() -> None:
    readiness = Readiness(CONFIG, OPTIONS)
    readiness.loading()
    await readiness.wait_until_ready(["CONTROLLER"], 10)
    await readiness.wait_until_ready([], 10)
    assert now() < 0.01
    await readiness.wait_until_ready(["CONTROLLER", "EXTERNAL"], 2)
    assert now() == pytest.approx(2, abs=0.01)
    loop = asyncio.get_running_loop()
    loop.call_later(1, readiness.current, 0.0)
    loop.call_later(2, readiness.published, image(CONFIG))
    await asyncio.gather(*(readiness.wait_until_ready(["EXTERNAL"], 10) for _ in range(3)))
    assert now() == pytest.approx(4, abs=0.01)


@in_virtual_time
async def test_nobody_waits_for_a_process_that_drains() -> None:
    readiness = Readiness(CONFIG, OPTIONS)
    readiness.loading()
    asyncio.get_running_loop().call_later(1, readiness.draining)
    await readiness.wait_until_ready(["EXTERNAL"], 10)
    await readiness.wait_until_ready(["EXTERNAL"], 10)
    assert now() == pytest.approx(1, abs=0.01)
