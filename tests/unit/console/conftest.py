"""Consoles of replicas whose stores are in memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.console.routes import console_routes
from app.rest.app import AppOptions
from tests.unit.console.browser import KEY, Browser, browsing
from tests.unit.regressions.guarded import Guarded, guarded
from tests.unit.rest.harness import Service, serving


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """Without callers; User:admin is a super user."""
    async with serving(around=AppOptions(console=console_routes(KEY))) as ready:
        yield ready


@pytest.fixture
async def browser(service: Service) -> AsyncIterator[Browser]:
    async with browsing(service.app) as browser:
        yield browser


@pytest.fixture
async def with_callers(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with guarded(tmp_path, AppOptions(console=console_routes(KEY))) as it:
        yield it


@pytest.fixture
async def stranger(with_callers: Guarded) -> AsyncIterator[Browser]:
    """A browser that has not signed in where callers are configured."""
    async with browsing(with_callers.app) as browser:
        yield browser
