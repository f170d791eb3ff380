"""Follows the feed of a service (docs/watch.md): when a stream breaks, the next one goes on after its last token."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlencode

from app.client.http.replies import ServiceError
from app.client.http.service import Service
from app.core.backoff import Backoff
from app.core.token import Token
from app.formats.feed_events import Acls, Configs, End, EpochBegan, Event, NoEventError, Snapshot, decode

BOOKMARK_MS = 5_000
SILENCE_S = 3 * BOOKMARK_MS / 1_000
"""A stream that is silent for this long is broken."""

_FIRST_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 5.0
_READS_EPOCHS = {"klamm-epochs": "1"}
_NOBODY = "nobody:"
"""A principal without ACLs, whose snapshot is a token and little more."""


class WatchRun:
    """`token` is that of the last transaction or bookmark that the caller has finished with."""

    def __init__(
        self,
        service: Service,
        query: Mapping[str, str],
        tell: Callable[[str], None],
        *,
        after: str | None,
        snapshot: bool,
        patience_s: float,
    ) -> None:
        """Without a token and without a snapshot it begins with what changes from now on.

        `tell` gets a line when the connection is lost, and when it is back. `patience_s` is for the first connection.
        """
        self.token = after
        self._service = service
        self._query = query
        self._tell = tell
        self._snapshot = snapshot
        self._give_up_at: float | None = time.monotonic() + patience_s
        self._backoff = Backoff(_FIRST_BACKOFF_S, _MAX_BACKOFF_S, random.uniform)
        self._is_lost = False
        self._reason = ""

    def events(self) -> Iterator[tuple[bytes, Event]]:
        """The events without end, each as it came and decoded. Raises ServiceError if asking again is of no use."""
        while True:
            began_at = time.monotonic()
            is_asking_where = self.token is None and not self._snapshot
            try:
                for line in self._service.lines(self._path(), silence_s=SILENCE_S, headers=_READS_EPOCHS):
                    event = _understood(line)
                    self._connected()
                    if event is None:
                        continue
                    if is_asking_where and isinstance(event, Snapshot):
                        self.token = event.token
                        break
                    yield line, event
                    self._take(event)
                if is_asking_where and self.token is not None:
                    continue
                why, wait_s = f"the service has ended the stream{self._reason}", 0.0
            except ServiceError as error:
                why, wait_s = str(self._passing(error)), error.wait_s
            if time.monotonic() - began_at > _MAX_BACKOFF_S:
                self._backoff.reset()
            if not self._is_lost and self._give_up_at is None:
                self._tell(f"{why}; trying again")
                self._is_lost = True
            time.sleep(max(self._backoff.next_s(), wait_s))

    def _path(self) -> str:
        if self.token is not None:
            begin = {**self._query, "after": self.token}
        elif self._snapshot:
            begin = {**self._query, "snapshot": "true"}
        else:
            begin = {"principal": _NOBODY, "snapshot": "true"}
        return f"/v1/watch?{urlencode({**begin, 'bookmark_ms': BOOKMARK_MS})}"

    def _connected(self) -> None:
        self._give_up_at = None
        if self._is_lost:
            self._is_lost = False
            self._tell("connected again")

    def _take(self, event: Event) -> None:
        # The token of a snapshot's first event is of no use before the snapshot is complete.
        if isinstance(event, End):
            self._reason = f" ({event.reason})"
        elif isinstance(event, EpochBegan):
            self.token = str(Token(event.epoch, event.first_offset))
        elif not isinstance(event, Snapshot | Acls | Configs):
            self.token = event.token

    def _passing(self, error: ServiceError) -> ServiceError:
        """Returns the error if it may pass, else raises it."""
        if error.oldest_token is not None:
            raise ServiceError(
                f"{error}; klamm watch --after {error.oldest_token} shows what is left, --snapshot starts over",
                code=error.code,
                status=error.status,
            ) from None
        if error.code in ("TOKEN_EPOCH_MISMATCH", "TOKEN_EPOCH_INVALID"):
            raise ServiceError(
                f"{error}; the token is not part of this store's history (the store was restored or replaced, or the "
                "token is another store's), so the changes since then can't be shown: start over with --snapshot, or "
                "without --after for new changes only",
                code=error.code,
                status=error.status,
            ) from None
        given_up = self._give_up_at is not None and time.monotonic() > self._give_up_at
        if given_up or not error.again:
            raise error
        return error


def _understood(line: bytes) -> Event | None:
    try:
        return decode(line)
    except NoEventError as fault:
        raise ServiceError(f"the stream is not from Klamm: {fault}; check the address (--klamm)") from None
