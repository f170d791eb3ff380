"""What a follower decides by, whatever becomes of the services that it follows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from app.core import following as machine
from app.runtime.authorizer import Authorizer
from app.runtime.readiness import State
from tests import chains
from tests.fake_upstream import LATER_EPOCH, Service, Told, replica
from tests.klamm import until
from tests.scripted_server import ScriptedServer, problem
from tests.updates import topic

FAR_EPOCH = UUID("1d8fda4c-e000-7000-8000-00000000000b")
LOST = problem(409, "TOKEN_EPOCH_MISMATCH", "lost")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENING_S", "SNAPSHOT_S", "NO_BOOKMARK_S"):
        monkeypatch.setattr(machine, name, 2.0)
    for name in ("STALE_S", "PROBE_EVERY_S"):
        monkeypatch.setattr(machine, name, 0.5)


@asynccontextmanager
async def followed(told: Told) -> AsyncIterator[tuple[Service, Authorizer]]:
    """A follower that holds all of this history."""
    with ScriptedServer() as server:
        service = Service(server, told)
        async with replica(server.url) as authorizer:
            await until(lambda: holds(authorizer, told) and authorizer.readiness.state is State.READY)
            yield service, authorizer


def holds(authorizer: Authorizer, told: Told) -> bool:
    return str(authorizer.image.token) == told.token and authorizer.image.hash == told.hash


def grown(number: int = 3, told: Told | None = None) -> Told:
    """A history of so many records."""
    told = told or Told()
    while len(told.records) < number:
        told.transaction(len(told.records) + 1)
    return told


async def test_a_restart_of_the_service_costs_no_snapshot() -> None:
    told = grown()
    async with followed(told) as (service, authorizer):
        for number in range(3):
            service.is_away = True
            told.begin_epoch(UUID(int=LATER_EPOCH.int + number))
            told.transaction(10 + number)
            service.is_away = False
            await until(lambda: holds(authorizer, told))
        assert authorizer.metrics.image_loads == 1
        assert authorizer.image.epochs == told.epochs


async def test_a_store_that_was_put_back_is_loaded_in_its_later_epoch() -> None:
    async with followed(grown()) as (service, authorizer):
        restored = grown(2)
        restored.begin_epoch(LATER_EPOCH)
        service.told = restored
        await until(lambda: holds(authorizer, restored))
        assert authorizer.metrics.image_loads == 2


async def test_a_position_that_no_store_has_begun_is_given_up() -> None:
    async with followed(grown(5, Told(FAR_EPOCH))) as (service, authorizer):
        real = grown(2)
        service.if_ahead = problem(409, "TOKEN_EPOCH_INVALID", "far ahead")
        service.told = real
        await until(lambda: holds(authorizer, real) and authorizer.readiness.state is State.READY)


async def test_a_position_that_is_said_to_be_lost_is_not_given_up_for_an_older_state() -> None:
    """As by a follower of the version before that was left behind; the store comes back later."""
    told = grown(4)
    async with followed(told) as (service, authorizer):
        behind = grown(2)
        service.if_lost = service.if_ahead = LOST
        service.told = behind
        await until(lambda: authorizer.metrics.image_load_failures >= 3)
        assert holds(authorizer, told)
        assert authorizer.metrics.image_loads == 1
        service.told = told
        told.transaction(5)
        await until(lambda: holds(authorizer, told))
        assert authorizer.metrics.image_loads == 1


async def test_records_that_were_trimmed_are_passed_by_a_snapshot() -> None:
    async with followed(grown()) as (service, authorizer):
        longer = grown(9)
        service.trimmed = 8
        service.told = longer
        await until(lambda: holds(authorizer, longer))
        assert authorizer.metrics.image_loads == 2


async def test_a_record_that_the_image_can_not_apply_is_passed_by_a_snapshot() -> None:
    """Its hash is right: only the image finds that it can't be."""
    told = grown()
    async with followed(told) as (service, authorizer):
        wrong = grown()
        gone = chains.gone(topic("never-there"), 77)
        wrong.records += chains.transaction(3, wrong.hash, [gone])
        service.told = wrong
        await until(lambda: authorizer.metrics.records_poisoned > 0)
        assert holds(authorizer, told)
        await until(lambda: authorizer.metrics.image_loads == 2)
        assert (authorizer.image.offset, authorizer.image.acl_count) == (4, 3)


async def test_a_snapshot_that_the_image_can_not_be_built_of_leads_to_the_next_url() -> None:
    """Its digest is right: only the image finds that it can't be."""
    wrong = grown()
    wrong.configs["max.staleness.ms"] = "soon"
    with ScriptedServer() as one, ScriptedServer() as two:
        Service(one, wrong)
        Service(two, told := grown())
        async with replica(one.url, two.url) as authorizer:
            await until(lambda: holds(authorizer, told))
            assert authorizer.image.overrides == {}
            assert authorizer.metrics.records_poisoned == 1
