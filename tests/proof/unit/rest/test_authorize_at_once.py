"""Requests drawn anew, more than in the gate: whatever comes, authorize answers at once as its route does."""

import random
from pathlib import Path

import pytest

from tests.gate.unit.rest.test_authorize_at_once import compare_on, compare_started
from tests.klamm import InProcess


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
async def test_nobody_can_tell_it_from_the_route(
    service: InProcess,
    tmp_path: Path,
    guarded: bool,  # noqa: FBT001 - a parameter of a table
    level: str,
) -> None:
    await service.configure("audit.level", level)
    await compare_on(service, tmp_path, random.randrange(1 << 30), 1_000, guarded=guarded)


@pytest.mark.parametrize("how", [{"reachable": False}, {"enabled": False}])
async def test_nor_where_nothing_is_loaded_or_everything_allowed(tmp_path: Path, how: dict[str, bool]) -> None:
    await compare_started(how, tmp_path, random.randrange(1 << 30), 1_000)
