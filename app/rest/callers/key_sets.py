"""An issuer's keys: read in the background, and once more when a token names an unknown key."""

import asyncio
import logging
import random
from collections.abc import Callable
from pathlib import Path

from app.core.backoff import Backoff
from app.rest.callers.key_sources import KeySource, key_source
from app.rest.callers.signing_keys import KeySetError, PublicKey, SigningKeys
from app.runtime.deadlines import stop

_SHORT_WAIT_S = 1.0
"""If the next look is allowed later than this, a token with an unknown key doesn't wait for it."""
_LONGEST_WAIT_S = 4.0
_MOST_WAITING = 1_000
_SAY_AGAIN_S = 60.0

_log = logging.getLogger(__name__)


class KeySet:
    """The public keys of one issuer. If they can't be read, the last ones stay in use; at first there are none."""

    def __init__(
        self,
        source: str | KeySource,
        *,
        ca_file: Path | None = None,
        bearer_file: Path | None = None,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """`source` is as for `key_source`."""
        self.generation = 0
        self.was_read = False
        self._source = key_source(source, ca_file, bearer_file) if isinstance(source, str) else source
        self._jitter = jitter
        self._backoff = Backoff(self._source.first_rest_s, self._source.longest_rest_s, jitter)
        self._keys = SigningKeys()
        self._look: asyncio.Task[None] | None = None
        self._look_began_at = float("-inf")
        self._allowed_at = float("-inf")
        self._failing = False
        self._said: tuple[str, float] = ("", float("-inf"))
        self._waiting = 0
        self._following: asyncio.Task[None] | None = None

    def key(self, kid: str | None, algorithm: str) -> PublicKey | None:
        return self._keys.find(kid, algorithm)

    def knows(self, kid: str | None) -> bool:
        return self._keys.knows(kid)

    def open(self) -> None:
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        for task in (self._following, self._look):
            if task is not None:
                await stop(task)

    async def refresh(self) -> None:
        """Read the keys, or wait for the read under way. A failure is logged, and the keys stay as they are."""
        loop = asyncio.get_running_loop()
        if self._look is None or not self._is_looking():
            self._look_began_at = loop.time()
            self._look = loop.create_task(self._read())
        # To cancel one that waits must not cancel the read.
        await asyncio.wait({self._look})

    def _is_looking(self) -> bool:
        return self._look is not None and not self._look.done()

    async def look_again(self) -> None:
        """Refresh for a token with an unknown key.

        Calls at the same time share one read; a call too soon after the last one returns at once.
        """
        if self._waiting >= _MOST_WAITING:
            return
        self._waiting += 1
        try:
            async with asyncio.timeout(_LONGEST_WAIT_S):
                await self._look_since(asyncio.get_running_loop().time())
        except TimeoutError:
            return
        finally:
            self._waiting -= 1

    async def _look_since(self, asked_at: float) -> None:
        """Return after a read that began no earlier than this, as an earlier one may have missed the new key."""
        loop = asyncio.get_running_loop()
        while self._is_looking() or self._look_began_at < asked_at:
            if not self._is_looking():
                rest_s = self._allowed_at - loop.time()
                if rest_s > _SHORT_WAIT_S:
                    return
                if rest_s > 0:
                    await asyncio.sleep(rest_s)
                    continue
                self._allowed_at = loop.time() + self._source.spacing_s
            await self.refresh()

    async def _follow(self) -> None:
        while True:
            await self.refresh()
            if self._failing:
                await asyncio.sleep(self._backoff.next_s())
            else:
                self._backoff.reset()
                each_s = self._source.each_s
                await asyncio.sleep(self._jitter(0.9 * each_s, each_s))

    async def _read(self) -> None:
        try:
            keys = await self._source.read()
        except KeySetError as error:
            self._fail(str(error))
        except Exception as fault:  # noqa: BLE001 - an unexpected fault must not end the reading
            _log.exception("key_set_fault", extra={"source": self._source.name})
            self._fail(type(fault).__name__)
        else:
            self._failing = False
            self._said = ("", float("-inf"))
            if keys is not None:
                self._take(keys)

    def _fail(self, why: str) -> None:
        self._failing = True
        now = asyncio.get_running_loop().time()
        if self._said[0] == why and now < self._said[1] + _SAY_AGAIN_S:
            return
        self._said = (why, now)
        extra = {"source": self._source.name, "why": why, **self._source.files}
        if self.was_read:
            _log.warning("key_set_not_refreshed", extra=extra)
        else:
            # No token of this issuer is accepted until it is read.
            _log.error("key_set_never_read", extra=extra)

    def _take(self, keys: SigningKeys) -> None:
        if self.was_read and keys == self._keys:
            return
        self._keys, self.was_read = keys, True
        self.generation += 1
        extra: dict[str, object] = {"source": self._source.name, "keys": len(keys.keys)}
        if keys.ignored:
            extra["ignored"] = ",".join(f"{why}:{count}" for why, count in sorted(keys.ignored.items()))
        # A set without keys is accepted: so an issuer revokes everything it has signed.
        _log.log(logging.INFO if keys.keys else logging.WARNING, "key_set_read", extra=extra)
