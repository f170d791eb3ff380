import asyncio

import pytest
from pydantic import SecretStr
from starlette.types import Message

from app.main import create_app
from app.ops.settings import Settings


async def test_an_impatient_end_leaves_no_trace() -> None:
    """A second Ctrl-C cancels the lifespan instead of telling it the end; uvicorn would log what comes of it."""
    replica = create_app(Settings(database_url=SecretStr("postgresql://klamm@127.0.0.1:1/klamm")))
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
    await replica._parts.authorizer.close()
    await asyncio.to_thread(replica._parts.audit.close)


def test_a_replica_needs_a_database_url() -> None:
    with pytest.raises(ValueError, match="needs a database URL"):
        create_app(Settings())
