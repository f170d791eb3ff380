"""Streams of the services that may be followed: opened, read and left as core's `Following` says."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from app.core.following import Action, Following, Probe
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.formats.feed_events import Bookmark, End, Event, NoEventError
from app.upstream.chain import FollowerChain
from app.upstream.connection import Connection, RefusedError, cut, unavailable
from app.upstream.stream import WatchStream, opened, poison_of, token_in

_CHECK_S = 0.5
_PROBE_S = 5.0
_STOP_S = 1.0

_log = logging.getLogger(__name__)
T = TypeVar("T")


class StreamLeftError(Exception):
    """A stream was left, or never began. The machine knows it, and has decided what is asked next.

    INVARIANT: `why` is shown to anybody, so nothing that an upstream has sent is in it. `detail` is for the log.
    """

    def __init__(self, url: str, fault: PoisonedRecordException | StoreUnavailableException, detail: str = "") -> None:
        """`fault` is what runtime is told."""
        self.why = fault.why if isinstance(fault, PoisonedRecordException) else fault.message
        super().__init__(self.why)
        self.url = url
        self.fault = fault
        self.detail = detail


class UpstreamStreams:
    def __init__(self, connection: Connection, chain: FollowerChain) -> None:
        self.following = Following(len(connection.options.urls))
        self.chain = chain
        self._connection = connection
        self._urls = connection.options.urls
        self._clock = connection.options.clock.monotonic
        self._whys: dict[str, str] = {}
        """By URL, why it is not followed; since the last bookmark."""
        self._logged: set[str] = set()
        """Each reason is logged once until somebody is followed again."""
        self._probe: asyncio.Task[None] | None = None

    def now(self) -> float:
        return self._clock()

    async def open(self) -> WatchStream:
        """The stream that the machine asks for. Raises StreamLeftError."""
        ask = self.following.ask
        url = self._urls[ask.url]
        self.following.opened(self._clock())
        with self.reported(url):
            return await self._in_time(url, lambda: opened(self._connection, url, ask.after, self.chain.asking()))

    async def next(self, stream: WatchStream, offset: int) -> Event:
        """The stream's next event, which is about a record behind this offset, if about any. Raises StreamLeftError."""
        with self.reported(stream.url, offset):
            event = await self._in_time(stream.url, stream.next)
            if isinstance(event, End):
                raise StoreUnavailableException(f"the upstream `{stream.url}` ended the stream (`{event.reason}`)")
            return event

    @contextmanager
    def reported(self, url: str, offset: int = -1) -> Iterator[None]:
        """Tells the machine what has ended a stream, and raises StreamLeftError in place of it.

        The offset is that of the record that can't be read in this case; -1: of no single one.
        """
        try:
            yield
        except RefusedError as refused:
            fault = self._fault_of(url, refused)
            self.following.refused(refused.code, self._clock())
            raise StreamLeftError(url, fault, refused.detail) from None
        except NoEventError as damage:
            self.following.failed_check(self._clock())
            raise StreamLeftError(url, poison_of(offset, url, damage), str(damage)) from None
        except StoreUnavailableException as fault:
            self.following.broke(self._clock())
            raise StreamLeftError(url, fault) from None

    def followed(self, url: str, offset: int) -> None:
        """Notes that a bookmark came."""
        if self._connection.where is None:
            _log.info("upstream_followed", extra={"url": url, "offset": offset})
        self._connection.where = url
        self._whys.clear()
        self._logged.clear()

    def lost(self, left: StreamLeftError) -> None:
        """Says why a stream was left, in the log and to whoever asks."""
        self._whys[left.url] = left.why
        if left.why not in self._logged:
            self._logged.add(left.why)
            _log.warning("upstream_lost", extra={"why": left.why, "detail": cut(left.detail)})
        self._connection.where, self._connection.why = None, "; ".join(dict.fromkeys(self._whys.values()))

    async def close(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            await stop_task(probe)

    # inside

    def _fault_of(self, url: str, refused: RefusedError) -> StoreUnavailableException:
        try:
            if refused.problem is not None and refused.problem.chain:
                self.chain.check(refused.problem.chain)
        except StoreUnavailableException as loop:
            return StoreUnavailableException(f"`{url}`: {loop.message}")
        return unavailable(url, refused)

    async def _in_time(self, url: str, step: Callable[[], Awaitable[T]]) -> T:
        """What the step brings, unless the machine leaves the stream meanwhile. Raises StreamLeftError.

        Before each event as well, as a stream may be read faster than a second passes between two waits.
        """
        check = _Check(self._is_left)
        try:
            if not check.is_left():
                async with asyncio.timeout(None) as bound:
                    check.begin(bound)
                    found = await step()
                if not check.has_left:
                    return found
        except (TimeoutError, RefusedError, StoreUnavailableException, NoEventError):
            # INVARIANT: the machine is told once why a stream ended.
            if not check.has_left:
                raise
        finally:
            check.end()
        why = f"the upstream `{url}` was left: what it sends comes too late, or is too old"
        raise StreamLeftError(url, StoreUnavailableException(why))

    def _is_left(self) -> bool:
        action = self.following.check(self._clock())
        if action is Action.PROBE and self._probe is None:
            url = self.following.probe_url
            self._probe = asyncio.create_task(self._probed(url), name="klamm-upstream-probe")
        return action is Action.LEAVE

    async def _probed(self, number: int) -> None:
        """Asks how old the state of another service is."""
        code, probe = None, Probe()
        try:
            async with asyncio.timeout(_PROBE_S):
                await self._take_bookmarks(self._urls[number], probe)
        except RefusedError as refused:
            code = refused.code
        except (StoreUnavailableException, NoEventError, TimeoutError):
            pass
        except Exception:  # noqa: BLE001 - logged; another probe follows
            _log.exception("upstream_probe_failed")
        finally:
            self._probe = None
        self.following.probed(number, code, probe.age_s, self._clock())

    async def _take_bookmarks(self, url: str, probe: Probe) -> None:
        """None of a service that follows this one. Raises RefusedError, StoreUnavailableException, NoEventError."""
        stream = await opened(self._connection, url, self.following.held, self.chain.asking())
        try:
            reads_on = True
            while reads_on:
                event = await stream.next()
                if isinstance(event, Bookmark):
                    if event.chain and self.chain.own in event.chain:
                        return
                    reads_on = probe.bookmark(token_in(event.token), event.age_ms / 1000)
        finally:
            await stream.close()


class _Check:
    """Looks every half second whether a stream is left, and then ends the wait for what it brings.

    An object, as a function that names itself would be garbage that only the collector frees.
    """

    def __init__(self, is_left: Callable[[], bool]) -> None:
        self.has_left = False
        self._is_left = is_left
        self._bound: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, bound: asyncio.Timeout) -> None:
        self._bound = bound
        self._timer = asyncio.get_running_loop().call_later(_CHECK_S, self._look)

    def is_left(self) -> bool:
        self.has_left = self._is_left()
        return self.has_left

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if not self.is_left():
            self._timer = loop.call_later(_CHECK_S, self._look)
        elif self._bound is not None:
            self._bound.reschedule(loop.time())


async def stop_task(task: asyncio.Task[None]) -> None:
    """Cancels the task and waits a moment for its end."""
    task.cancel()
    await asyncio.wait({task}, timeout=_STOP_S)
