"""The events of one whole snapshot of a service, as it sends them."""

import json
from typing import TextIO

from app.client.http.access import Access
from app.client.http.replies import ServiceError
from app.formats.feed_events import End, NoEventError, Synced, decode


def write_snapshot(access: Access, out: TextIO) -> str:
    """Returns its token. Raises ServiceError if it does not arrive whole."""
    from app.client.http.exchange import Exchange  # noqa: PLC0415 - httpx takes long to load, and help needs none of it

    exchange, is_terminal = Exchange(access), out.isatty()
    try:
        for line in exchange.lines("/v1/watch?snapshot=true", silence_s=access.timeout_s):
            event = decode(line)
            if isinstance(event, End):
                raise ServiceError(f"`{access.url}` ended the snapshot early ({event.reason}); try again")
            out.write(f"{harmless_json(line) if is_terminal else line.decode()}\n")
            if isinstance(event, Synced):
                return event.token
    except NoEventError as fault:
        raise ServiceError(f"`{access.url}` does not answer like Klamm ({fault})") from None
    finally:
        exchange.close()
    raise ServiceError(f"`{access.url}` closed the connection during the snapshot; try again")


def harmless_json(line: bytes) -> str:
    """The same JSON; control characters, and those that a terminal can't show, are escaped."""
    text = line.decode()
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
