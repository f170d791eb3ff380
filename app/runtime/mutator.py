"""The one writer of this process: groups waiting updates into transactions (group commit).

A caller always learns the truth: what came of its mutation, that it was not written, or that its outcome is unknown.
"""

import asyncio
import itertools
import logging
from collections.abc import Generator, Sequence
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass

from app.core.backoff import Backoff
from app.core.continuity import KnownHistory
from app.core.kafka.errors import (
    ApiException,
    OverloadedException,
    RequestTimedOutException,
    StoreUnavailableException,
    UnknownServerException,
)
from app.core.mutations import CreateAcls, DeleteAcls, ExpireAcls, Mutation, Outcome
from app.core.token import Token
from app.metrics.declared import Metrics
from app.runtime.change_log import Written, log_changes
from app.runtime.deadlines import answered, bounded, stop
from app.runtime.options import RuntimeOptions
from app.runtime.ports import AclStore

_logger = logging.getLogger(__name__)

_UNKNOWN = "the store did not answer in time; the outcome of the update is unknown, check before you repeat it"
_BUSY = "it did not get its turn within the timeout; try again"
_SILENT = "the store does not answer; try again"
_STOPPING = "the service is shutting down; the update was not written"


@dataclass(frozen=True, slots=True)
class Committed:
    """The token is of a state that holds the outcome (for a guarded mutation: the first that does)."""

    outcome: Outcome
    token: Token


class _Pending:
    __slots__ = ("answer", "context", "in_flight", "mutation", "number", "weight")

    def __init__(self, number: int, mutation: Mutation, answer: asyncio.Future[Committed]) -> None:
        self.number = number
        self.mutation = mutation
        self.context = copy_context()
        self.weight = max(1, _size(mutation))
        self.in_flight = False
        self.answer = answer

    def refuse(self, refusal: ApiException) -> None:
        if not self.answer.done():
            self.answer.set_exception(refusal)

    def settle(self, outcome: Outcome | ApiException, token: Token) -> Written:
        if isinstance(outcome, ApiException):
            self.refuse(outcome)
            return Written(self.mutation, 0, self.context)
        if not self.answer.done():
            self.answer.set_result(Committed(outcome, outcome.token or token))
        return Written(self.mutation, outcome.records, self.context)


class Mutator:
    def __init__(self, store: AclStore, known: KnownHistory, metrics: Metrics, options: RuntimeOptions) -> None:
        self._store = store
        self._known = known
        self._metrics = metrics
        self._options = options
        self._backoff = Backoff(options.first_backoff_s, options.max_backoff_s, options.clock.jitter)
        self._numbers = itertools.count()
        self._queue: dict[int, _Pending] = {}
        self._queued_weight = 0
        self._arrived = asyncio.Event()
        self._why_waiting = _BUSY
        self._closing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None
        # Asking for the running loop costs a system call (Python 3.11), which every update would pay.
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        self._task = asyncio.create_task(self._run(), name="klamm-mutator")

    async def submit(self, mutation: Mutation, timeout_s: float) -> Committed:
        """Waits until the mutation is durable. Raises what the store refuses it with; OverloadedException;
        StoreUnavailableException if it was not written; RequestTimedOutException if its outcome is unknown.
        """
        self._loop = self._loop or asyncio.get_running_loop()
        pending = _Pending(next(self._numbers), mutation, self._loop.create_future())
        self._admit(pending)
        try:
            return await answered(pending.answer, timeout_s)
        except TimeoutError:
            if pending.in_flight:
                raise RequestTimedOutException(_UNKNOWN) from None
            raise StoreUnavailableException(f"the update was not written: {self._why_waiting}") from None
        finally:
            # Also when the caller was cancelled: what is not in flight yet won't be written.
            self._dequeue(pending)

    async def close(self) -> None:
        self._closing = True
        for pending in list(self._queue.values()):
            self._dequeue(pending)
            pending.refuse(StoreUnavailableException(_STOPPING))
        if not self._idle.is_set():
            await asyncio.wait({asyncio.ensure_future(self._idle.wait())}, timeout=self._options.drain_timeout_s)
        if self._task is not None:
            await stop(self._task)
        try:
            await bounded(self._store.close(), self._options.drain_timeout_s)
        except Exception:
            _logger.exception("store_not_closed")

    # the callers' side

    def _admit(self, pending: _Pending) -> None:
        if self._closing:
            raise StoreUnavailableException(_STOPPING)
        options = self._options
        too_heavy = self._queue and self._queued_weight + pending.weight > options.max_queued_bindings
        if too_heavy or len(self._queue) >= options.max_queued_mutations:
            raise OverloadedException("too many updates are waiting; this one was not written, try again shortly")
        self._enqueue([pending])

    def _enqueue(self, arrivals: Sequence[_Pending]) -> None:
        for pending in arrivals:
            self._queue[pending.number] = pending
            self._queued_weight += pending.weight
        self._metrics.mutator_queue_size = len(self._queue)
        self._arrived.set()

    def _dequeue(self, pending: _Pending) -> None:
        if self._queue.pop(pending.number, None) is not None:
            self._queued_weight -= pending.weight
            self._metrics.mutator_queue_size = len(self._queue)

    # the writer's side

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            if not self._queue:
                self._arrived.clear()
                continue
            self._idle.clear()
            group: list[_Pending] = []
            try:
                reached = await self._write(group)
            except Exception:
                _logger.exception("mutator_failed")
                reached = True
            finally:
                for pending in group:
                    if pending.in_flight:
                        pending.refuse(RequestTimedOutException(_UNKNOWN))
                self._idle.set()
            if reached:
                self._backoff.reset()
            else:
                await asyncio.sleep(self._backoff.next_s())

    def _mutations_of(self, group: list[_Pending]) -> Generator[Mutation, None, None]:
        """The store begins to read these when their turn comes; an empty group is filled then."""
        if not group:
            group += self._next_group()
        for pending in group:
            yield pending.mutation

    def _next_group(self) -> list[_Pending]:
        group: list[_Pending] = []
        weight = deletes = 0
        options = self._options
        for pending in self._queue.values():
            weight += pending.weight
            deletes += isinstance(pending.mutation, DeleteAcls | ExpireAcls)
            full = len(group) >= options.max_group_mutations or weight > options.max_group_bindings
            if group and (full or deletes > options.max_group_deletes):
                break
            group.append(pending)
        for pending in group:
            self._dequeue(pending)
            pending.in_flight = True
        return group

    async def _write(self, group: list[_Pending]) -> bool:
        """Returns False if the store was not reached; the group is queued again then."""
        # INVARIANT: a write that was given up reads no further mutations, even if it comes back to life.
        with closing(self._mutations_of(group)) as mutations:
            try:
                written = await bounded(self._store.write(mutations, self._known), self._options.write_timeout_s)
            except StoreUnavailableException as fault:
                self._metrics.mutator_group_failures += 1
                self._why_waiting = fault.message
                self._queue_again(group)
                return False
            except (RequestTimedOutException, TimeoutError):
                self._metrics.mutator_group_failures += 1
                if not group:
                    self._why_waiting = _SILENT
                    return False
                _logger.warning("outcome_unknown", extra={"mutations": len(group)})
                return True
            except Exception:
                if not group:
                    group += self._next_group()
                _logger.exception("group_failed", extra={"mutations": len(group)})
                return await self._write_one_by_one(group)
        self._why_waiting = _BUSY
        token = Token(written.epoch, written.last_offset)
        if group and not 0 < len(written.outcomes) <= len(group):
            raise ValueError(f"the store gave {len(written.outcomes)} outcomes for {len(group)} mutations")
        done = [pending.settle(outcome, token) for pending, outcome in zip(group, written.outcomes, strict=False)]
        self._metrics.mutator_groups_written += bool(group)
        self._metrics.mutator_mutations_written += len(done)
        if len(done) < len(group):
            # They did not fit in the transaction: each gets its own outcome in the next one.
            self._queue_again(group[len(done) :])
        await log_changes(done, token)
        return True

    async def _write_one_by_one(self, group: Sequence[_Pending]) -> bool:
        """Nothing was committed, and the mutation at fault must not affect the others."""
        self._metrics.mutator_group_failures += 1
        if len(group) == 1:
            group[0].refuse(UnknownServerException("the update failed and was not written, not even in part"))
            return True
        for at, pending in enumerate(group):
            if not pending.answer.done() and not await self._write([pending]):
                self._queue_again(group[at + 1 :])
                return False
        return True

    def _queue_again(self, group: Sequence[_Pending]) -> None:
        """Puts them back in front, as they came first, without those whose callers have left."""
        for pending in group:
            pending.in_flight = False
            if self._closing:
                pending.refuse(StoreUnavailableException(_STOPPING))
        others = list(self._queue.values())
        for pending in others:
            self._dequeue(pending)
        self._enqueue([pending for pending in (*group, *others) if not pending.answer.done()])


def _size(mutation: Mutation) -> int:
    if isinstance(mutation, CreateAcls):
        return len(mutation.acls)
    if isinstance(mutation, ExpireAcls):
        return mutation.at_most
    return len(mutation.filters if isinstance(mutation, DeleteAcls) else mutation.changes)
