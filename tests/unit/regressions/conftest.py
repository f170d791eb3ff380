"""A replica that knows callers, and one that knows none."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.regressions.guarded import Guarded, guarded
from tests.unit.rest.harness import Service, serving


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """Open to everybody, loaded and ready, without ACLs; User:admin is a super user."""
    async with serving() as ready:
        yield ready


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Guarded]:
    """The same, but everybody has to say who they are."""
    async with guarded(tmp_path) as ready:
        yield ready
