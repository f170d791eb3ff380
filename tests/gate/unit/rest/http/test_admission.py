"""Places, queues and budgets of the pools."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from app.core.kafka.errors import OverloadedException
from app.metrics.declared import Metrics
from app.rest.app import ROUTES
from app.rest.http.admission import BOUNDS, Admission, Bounds, Place, Pool, body_bytes_of

MIB = 1024 * 1024


class Crowd:
    """Requests that keep their places until they are told to leave."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.inside: list[str] = []
        self._leave: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, body_bytes: int = 0, began: float | None = None) -> asyncio.Task[None]:
        self._leave[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._stay(name, body_bytes, began))
        await rest()
        return self.tasks[name]

    async def _stay(self, name: str, body_bytes: int, began: float | None) -> None:
        async with self.pool.admitted(body_bytes, began):
            self.inside.append(name)
            await self._leave[name].wait()
        self.inside.remove(name)

    async def go(self, *names: str) -> None:
        for name in names:
            self._leave[name].set()
        await rest()

    async def all_go(self) -> None:
        await self.go(*self._leave)
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def rest() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def pool_of(bounds: Bounds, is_late: Callable[[float], bool] = lambda _: False) -> tuple[Crowd, Metrics]:
    metrics = Metrics()
    return Crowd(Pool("lists", bounds, metrics, is_late)), metrics


def counts(metrics: Metrics) -> tuple[int, int, int]:
    """In flight, queued, refused."""
    in_flight, queued = metrics.admission_requests["lists"]
    return in_flight, queued, metrics.admission_refused["lists"]


async def test_places_are_given_in_order_and_the_excess_is_refused_at_once() -> None:
    crowd, metrics = pool_of(Bounds(places=2, queue=2, wait_s=60, body_bytes=100))
    for name in "abcd":
        await crowd.come(name)
    assert crowd.inside == ["a", "b"]
    assert counts(metrics) == (2, 2, 0)
    with pytest.raises(OverloadedException):
        await (await crowd.come("e"))
    assert counts(metrics) == (2, 2, 1)
    await crowd.go("b")
    assert crowd.inside == ["a", "c"]
    await crowd.go("a", "c")
    assert crowd.inside == ["d"]
    await crowd.all_go()
    assert counts(metrics) == (0, 0, 1)


async def test_nobody_overtakes_the_queue() -> None:
    crowd, _ = pool_of(Bounds(places=2, queue=2, wait_s=60, body_bytes=100))
    await crowd.come("a", 60)
    await crowd.come("long", 60)
    await crowd.come("short", 1)
    assert crowd.inside == ["a"]
    await crowd.go("a")
    assert crowd.inside == ["long", "short"]
    await crowd.all_go()


async def test_bodies_in_flight_have_a_budget_and_one_longer_than_it_goes_alone() -> None:
    crowd, metrics = pool_of(Bounds(places=10, queue=10, wait_s=60, body_bytes=100))
    await crowd.come("a", 60)
    await crowd.come("b", 40)
    await crowd.come("c", 1)
    assert crowd.inside == ["a", "b"]
    await crowd.go("b")
    assert crowd.inside == ["a", "c"]
    await crowd.come("huge", 1_000)
    await crowd.go("a")
    assert crowd.inside == ["c"]
    await crowd.go("c")
    assert crowd.inside == ["huge"]
    await crowd.all_go()
    assert counts(metrics) == (0, 0, 0)


async def test_nobody_waits_longer_than_the_pool_says() -> None:
    crowd, metrics = pool_of(Bounds(places=1, queue=5, wait_s=0.01, body_bytes=100))
    await crowd.come("a")
    task = await crowd.come("b")
    with pytest.raises(OverloadedException):
        await task
    assert counts(metrics) == (1, 0, 1)
    await crowd.all_go()
    assert counts(metrics) == (0, 0, 1)


async def test_who_gives_up_waiting_makes_room_for_those_behind() -> None:
    crowd, metrics = pool_of(Bounds(places=2, queue=5, wait_s=60, body_bytes=100))
    await crowd.come("a", 60)
    long = await crowd.come("long", 60)
    await crowd.come("short", 1)
    long.cancel()
    await rest()
    assert crowd.inside == ["a", "short"]
    assert counts(metrics) == (2, 0, 0)
    await crowd.all_go()
    assert counts(metrics) == (0, 0, 0)


async def test_a_place_that_comes_to_someone_who_is_leaving_is_not_lost() -> None:
    crowd, metrics = pool_of(Bounds(places=1, queue=5, wait_s=60, body_bytes=100))
    await crowd.come("a")
    leaving = await crowd.come("leaving")
    await crowd.come("next")
    crowd.pool.leave(0)  # as a's end does, in the step in which the other one is cancelled
    leaving.cancel()
    await rest()
    assert crowd.inside == ["a", "next"]
    assert counts(metrics)[:2] == (1, 0)
    crowd.pool._take(0)
    await crowd.all_go()
    assert counts(metrics) == (0, 0, 0)


async def test_a_fault_inside_gives_the_place_back() -> None:
    crowd, metrics = pool_of(Bounds(places=1, queue=0, wait_s=60, body_bytes=100))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            async with crowd.pool.admitted(100):
                raise ZeroDivisionError
    assert counts(metrics) == (0, 0, 0)


@pytest.mark.parametrize("yields", [True, False])
async def test_only_decisions_yield_to_overload(*, yields: bool) -> None:
    asked: list[float] = []

    def is_late(began: float) -> bool:
        asked.append(began)
        return True

    crowd, metrics = pool_of(Bounds(5, 5, 60, 100, yields_to_overload=yields), is_late)
    task = await crowd.come("a", began=7.5)
    assert asked == ([7.5] if yields else [])
    assert task.done() == yields
    assert counts(metrics) == ((0, 0, 1) if yields else (1, 0, 0))
    await crowd.come("b")
    assert "b" in crowd.inside, "who doesn't say when it came isn't late"
    await crowd.all_go()


def test_every_route_has_a_pool() -> None:
    pools = {route.name: route.pool for route in ROUTES}
    of_pages = {"pages", "unauthenticated"}
    assert {*pools.values(), *of_pages} == set(Admission(Metrics()).pools) == set(BOUNDS)
    assert of_pages.isdisjoint(pools.values()), "what visitors of the console take is nothing that the API needs"
    assert {name for name, pool in pools.items() if pool == "updates"} == {"createAcls", "deleteAcls", "alterConfigs"}
    assert {name for name, pool in pools.items() if pool == "lists"} == {"acls", "explain", "whoCan", "whatCan"}
    assert {name for name, pool in pools.items() if pool == "past"} == {"history"}
    assert {name for name, pool in pools.items() if pool == "waiting"} == {"start"}
    probes = {"livez", "readyz", "readyzListener", "startupz", "metrics"}
    assert {name for name, pool in pools.items() if pool == "probes"} == probes
    assert {name for name, bounds in BOUNDS.items() if bounds.yields_to_overload} == {"decisions"}


async def fill(pool: Pool, count: int, body_bytes: int = 0) -> AsyncExitStack:
    async with AsyncExitStack() as stack:
        for _ in range(count):
            await pool.admitted(body_bytes).__aenter__()
            stack.callback(pool.leave, body_bytes)
        return stack.pop_all()


async def immediate(entered: Awaitable[None]) -> None:
    await asyncio.wait_for(entered, 30)


async def test_pools_do_not_starve_each_other_and_probes_are_never_refused() -> None:
    admission = Admission(Metrics())
    async with (
        await fill(admission.pools["updates"], BOUNDS["updates"].places),
        await fill(admission.pools["lists"], BOUNDS["lists"].places),
        await fill(admission.pools["decisions"], BOUNDS["decisions"].places),
    ):
        for name in ("waiting", "probes"):
            async with admission.pools[name].admitted(0):
                pass
        with pytest.raises(OverloadedException):
            await immediate(admission.pools["decisions"].admitted(0).__aenter__())
    async with await fill(admission.pools["probes"], 20_000), admission.pools["probes"].admitted(0):
        pass


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], 0),
        ([(b"content-length", b"12")], 12),
        ([(b"content-length", b"99999999999")], MIB),
        ([(b"content-length", b"x")], MIB),
        ([(b"host", b"k"), (b"transfer-encoding", b"chunked")], MIB),
    ],
)
def test_how_long_a_body_may_become(headers: list[tuple[bytes, bytes]], expected: int) -> None:
    assert body_bytes_of(headers, MIB) == expected


async def inside(stack: AsyncExitStack, place: Place) -> None:
    """Have this place until the stack is unwound."""
    await stack.enter_async_context(place)


async def test_one_caller_gets_half_of_a_pool_at_most() -> None:
    pool = Admission(Metrics()).pools["decisions"]
    places, bytes_ = BOUNDS["decisions"].places, BOUNDS["decisions"].body_bytes
    async with AsyncExitStack() as stack:
        for _ in range(places // 2):
            await inside(stack, pool.admitted(0, None, "slow"))
        with pytest.raises(OverloadedException):
            await inside(stack, pool.admitted(0, None, "slow"))
        await inside(stack, pool.admitted(bytes_ // 2, None, "other"))
        with pytest.raises(OverloadedException):
            await inside(stack, pool.admitted(1, None, "other"))
        await inside(stack, pool.admitted(1, None, "third"))
    async with pool.admitted(bytes_, None, "slow"):
        pass
    assert not pool._shares


async def test_a_share_is_given_back_by_who_waited_in_vain() -> None:
    pool = Admission(Metrics()).pools["decisions"]
    async with await fill(pool, BOUNDS["decisions"].places):
        with pytest.raises(OverloadedException):
            await pool.admitted(0, None, "slow").__aenter__()
    assert not pool._shares


def test_it_can_be_too_late_to_find_out_who_calls() -> None:
    metrics = Metrics()
    late = Admission(metrics, lambda began: began < 5.0)
    late.look_further(None)
    late.look_further(6.0)
    with pytest.raises(OverloadedException):
        late.look_further(4.0)
    assert metrics.admission_refused["decisions"] == 1
