"""The REST application on a real authorizer whose store is in memory."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.rest.harness import Service, serving


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """Loaded and ready, without ACLs; User:admin is a super user."""
    async with serving() as ready:
        yield ready


@pytest.fixture
async def unloaded() -> AsyncIterator[Service]:
    """The store can't be reached, so nothing is loaded."""
    async with serving(reachable=False) as loading:
        yield loading
