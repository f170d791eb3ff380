"""Lines in the service's log for what each transaction has changed: who, how much, and the token to undo it by."""

import logging
from collections.abc import Callable, Iterable
from contextvars import Context
from functools import partial
from queue import Full, Queue
from threading import Thread
from typing import NamedTuple

from app.core.mutations import AlterConfigs, CreateAcls, DeleteAcls, ExpireAcls, Mutation
from app.core.token import Token

_log = logging.getLogger(__name__)

_MOST_WAITING = 10_000
_CLOSE_S = 1.0
_CALLS = {CreateAcls: "createAcls", DeleteAcls: "deleteAcls", AlterConfigs: "alterConfigs", ExpireAcls: "expireAcls"}


class Written(NamedTuple):
    """How many records a mutation has written, and the context of the request that asked for it."""

    mutation: Mutation
    records: int
    context: Context


class ChangeLog:
    """Lines are written by a daemon thread, so that a log that nobody reads holds up no decision.

    Lines that find no room are dropped; `klamm log` has every change.
    """

    def __init__(self) -> None:
        self._waiting: Queue[Callable[[], None] | None] = Queue(_MOST_WAITING)
        self._thread: Thread | None = None

    def tell(self, written: Iterable[Written], token: Token) -> None:
        """A line for each call, actor and comment of a transaction; if it is one request's, with its id and caller."""
        if not _log.isEnabledFor(logging.INFO):
            return
        by: dict[tuple[str, str, str | None], list[Written]] = {}
        for each in written:
            if each.records:
                mutation = each.mutation
                by.setdefault((_CALLS[type(mutation)], mutation.actor, mutation.comment), []).append(each)
        for (call, actor, comment), some in by.items():
            extra: dict[str, object] = {
                "call": call,
                "actor": actor,
                "records": sum(each.records for each in some),
                "token": str(token),
            }
            if comment is not None:
                extra["comment"] = comment
            if len(some) > 1:
                extra["requests"] = len(some)
            context = some[0].context if len(some) == 1 else Context()
            self._put(partial(context.run, _tell, extra))

    def close(self) -> None:
        """Waits at most a second for lines that are not written yet."""
        if self._thread is not None and self._put(None):
            self._thread.join(_CLOSE_S)

    def _put(self, line: Callable[[], None] | None) -> bool:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="klamm-change-log", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(line)
        except Full:
            return False
        return True

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            line()


def _tell(extra: dict[str, object]) -> None:
    _log.info("change_written", extra=extra)
