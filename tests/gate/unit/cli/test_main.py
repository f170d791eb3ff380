import asyncio

import httpx
import pytest
from starlette.types import Message

from app.cli.main import create_app
from app.formats.database_url import DatabaseUrl
from app.settings.model import Settings


async def test_an_impatient_end_leaves_no_trace() -> None:
    """A second Ctrl-C cancels the lifespan instead of telling it the end; uvicorn would log what comes of it."""
    replica = create_app(Settings(database_url=DatabaseUrl.parse("postgresql://klamm@127.0.0.1:1/klamm")))
    started = asyncio.Event()

    async def receive() -> Message:
        if started.is_set():
            await asyncio.Event().wait()
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        assert message["type"] == "lifespan.startup.complete"
        started.set()

    life = asyncio.create_task(replica({"type": "lifespan"}, receive, send))
    await started.wait()
    await asyncio.sleep(0)
    life.cancel()
    await life
    await replica.authorizer.close()
    await asyncio.to_thread(replica.audit.close)


@pytest.mark.parametrize("given", [{}, {"docs_enabled": True}, {"docs_enabled": False}])
async def test_a_replica_serves_its_reference_unless_its_settings_say_otherwise(given: dict[str, bool]) -> None:
    settings = Settings.model_validate({"database_url": "postgresql://klamm@127.0.0.1:1/klamm", **given})
    enabled = given.get("docs_enabled", True)
    replica = create_app(settings)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(replica), base_url="http://klamm") as client:
        for path in ("/docs", "/openapi.json"):
            assert (await client.get(path)).status_code == (200 if enabled else 404)
        assert ("/docs" in (await client.get("/")).json()["links"]) is enabled


def test_a_replica_needs_a_database_url() -> None:
    with pytest.raises(ValueError, match="needs a database URL"):
        create_app(Settings())
