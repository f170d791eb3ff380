"""Consoles of replicas whose stores are in memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.console.routes import console_routes
from app.rest.app import AppOptions
from tests.browser import KEY, Browser, browsing
from tests.klamm import InProcess, in_process


@pytest.fixture
async def service() -> AsyncIterator[InProcess]:
    """Without callers; User:admin is a super user."""
    async with in_process(around=AppOptions(console=console_routes(KEY))) as ready:
        yield ready


@pytest.fixture
async def browser(service: InProcess) -> AsyncIterator[Browser]:
    async with browsing(service.app) as browser:
        yield browser


@pytest.fixture
async def with_callers(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with in_process(tokens_file=tmp_path / "klamm.tokens", around=AppOptions(console=console_routes(KEY))) as it:
        yield it


@pytest.fixture
async def stranger(with_callers: InProcess) -> AsyncIterator[Browser]:
    """A browser that has not signed in where callers are configured."""
    async with browsing(with_callers.app) as browser:
        yield browser
