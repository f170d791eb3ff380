"""Removes ACLs that have ended, and counts those that have an end.

Decisions don't wait for it: an ALLOW is no longer seen once it has ended (`core/image.AuthorizerImage.now`). A DENY
holds until its removal, which is a record like any other.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta

from app.core.backoff import Backoff
from app.core.kafka.bindings import AclTerms, rfc3339
from app.core.kafka.errors import ApiException
from app.core.mutations import ExpireAcls, ExpireAclsOutcome
from app.metrics.declared import Metrics
from app.runtime.deadlines import stop
from app.runtime.loader import Loader
from app.runtime.mutator import Mutator
from app.runtime.options import RuntimeOptions
from app.runtime.pace import Pace

_log = logging.getLogger(__name__)

_AT_ONCE = 1_000
_SPREAD_S = 0.3
_MAX_BACKOFF_S = 30.0
_COUNT_EACH_S = 30.0
_TELL_EACH_S = 3_600.0
_SOON = timedelta(days=1)


@dataclass(slots=True)
class _Census:
    end: int = 0
    ended: int = 0
    soon: int = 0
    first: AclTerms | None = None


class Expiry:
    """The store's own clock says what has ended, at each poll of the feed and again under the head's lock."""

    def __init__(self, loader: Loader, mutator: Mutator, metrics: Metrics, options: RuntimeOptions) -> None:
        self._loader = loader
        self._mutator = mutator
        self._metrics = metrics
        self._options = options
        self._backoff = Backoff(options.first_backoff_s, _MAX_BACKOFF_S, options.clock.jitter)
        self._told_at: float | None = None
        self._in_trouble = False
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        self._tasks = [
            asyncio.create_task(self._keep_removing(), name="klamm-expiry"),
            asyncio.create_task(self._keep_counting(), name="klamm-expiry-census"),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            await stop(task)

    async def _keep_removing(self) -> None:
        holds_ended = self._loader.polls.holds_ended
        while True:
            await holds_ended.wait()
            # All replicas find it at the same time: the first one removes it, and the others see that it is gone.
            await asyncio.sleep(self._options.clock.jitter(0.0, _SPREAD_S))
            if holds_ended.is_set():
                # The next poll says whether anything is left.
                holds_ended.clear()
                await self._remove()

    async def _remove(self) -> None:
        try:
            removed = _AT_ONCE
            while removed == _AT_ONCE:
                committed = await self._mutator.submit(ExpireAcls(_AT_ONCE), self._options.request_timeout_s)
                outcome = committed.outcome
                removed = outcome.records if isinstance(outcome, ExpireAclsOutcome) else 0
                self._metrics.acls_expired += removed
        except ApiException as fault:
            if not self._in_trouble:
                _log.warning("ended_acls_not_removed", extra={"why": fault.message})
            self._in_trouble = True
            await asyncio.sleep(self._backoff.next_s())
        else:
            self._in_trouble = False
            self._backoff.reset()

    async def _keep_counting(self) -> None:
        while True:
            try:
                await self._count()
            except Exception:  # noqa: BLE001 - logged with its cause; the task lives on
                _log.exception("ends_not_counted")
            await asyncio.sleep(self._options.clock.jitter(_COUNT_EACH_S / 2, _COUNT_EACH_S))

    async def _count(self) -> None:
        now, terms = self._loader.watchers.store_time_now(), self._loader.image.index.table.terms
        if now is None:
            return
        census, pace = _Census(), Pace()
        # A shard may change or be cleared between two steps: the next census is right again.
        for shard in list(terms.shards):
            for each in list(shard.values()):
                if each.expires_at is None:
                    continue
                census.end += 1
                census.ended += each.expires_at <= now
                if now < each.expires_at <= now + _SOON:
                    census.soon += 1
                    if census.first is None or each.expires_at < (census.first.expires_at or now):
                        census.first = each
            await pace.breathe()
        self._metrics.acls_with_end, self._metrics.acls_ended = census.end, census.ended
        self._metrics.acls_ending_within_a_day = census.soon
        self._tell(census)

    def _tell(self, census: _Census) -> None:
        clock = self._options.clock.monotonic()
        if census.first is None or census.first.expires_at is None:
            return
        if self._told_at is None or clock - self._told_at >= _TELL_EACH_S:
            self._told_at = clock
            extra = {"acls": census.soon, "first_at": rfc3339(census.first.expires_at), "owner": census.first.owner}
            _log.info("acls_end_within_a_day", extra=extra)
