"""The events of one whole snapshot of a service, as it sends them."""

import json
from typing import TextIO

from app.client.http.access import Access
from app.client.http.replies import ServiceError
from app.client.http.service import Service
from app.formats.feed_events import End, NoEventError, Synced, decode


def write_snapshot(access: Access, out: TextIO) -> str:
    """Returns its token. Raises ServiceError if it does not arrive whole."""
    with Service(access) as service:
        try:
            for line in service.lines("/v1/watch?snapshot=true", silence_s=access.timeout_s):
                event = decode(line)
                if isinstance(event, End):
                    raise ServiceError(f"`{access.url}` ended the snapshot early ({event.reason}); try again")
                write_event(line, out)
                if isinstance(event, Synced):
                    return event.token
        except NoEventError as fault:
            raise ServiceError(f"`{access.url}` does not answer like Klamm ({fault})") from None
    raise ServiceError(f"`{access.url}` closed the connection during the snapshot; try again")


def write_event(line: bytes, out: TextIO) -> None:
    """As it came; on a terminal, characters that it can't show, or that would control it, are escaped."""
    text = line.decode()
    if out.isatty() and not text.isprintable():
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    out.write(f"{text}\n")
