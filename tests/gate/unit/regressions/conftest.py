"""A replica that knows callers, and one that knows none."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.klamm import InProcess, in_process


@pytest.fixture
async def service() -> AsyncIterator[InProcess]:
    """Open to everybody, loaded and ready, without ACLs; User:admin is a super user."""
    async with in_process() as ready:
        yield ready


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[InProcess]:
    """The same, but everybody has to say who they are."""
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as ready:
        yield ready
