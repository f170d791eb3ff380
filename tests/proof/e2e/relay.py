"""The proxy before PostgreSQL, for tests that are no coroutines: it runs in a thread of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.proxy import Proxy, proxy_to


@contextmanager
def relay_to(dsn: str) -> Iterator[Proxy]:
    """A proxy with a DSN of its own, for as long as the block lasts."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxied = proxy_to(dsn)
    try:
        yield asyncio.run_coroutine_threadsafe(proxied.__aenter__(), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(proxied.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
