"""Lines in the service's log for what each transaction has changed: who, how much, and the token to undo it by."""

import logging
from collections.abc import Iterable
from contextvars import Context
from functools import partial
from typing import NamedTuple

from app.core.mutations import AlterConfigs, CreateAcls, DeleteAcls, ExpireAcls, Mutation
from app.core.token import Token
from app.runtime.pace import Pace

_log = logging.getLogger(__name__)

_CALLS = {CreateAcls: "createAcls", DeleteAcls: "deleteAcls", AlterConfigs: "alterConfigs", ExpireAcls: "expireAcls"}


class Written(NamedTuple):
    """How many records a mutation has written, and the context of the request that asked for it."""

    mutation: Mutation
    records: int
    context: Context


async def log_changes(written: Iterable[Written], token: Token) -> None:
    """Writes a line for each call, actor and comment of a transaction; if it is one request's, with its id and caller.

    A transaction may have hundreds of them, so requests are answered in between.
    """
    if not _log.isEnabledFor(logging.INFO):
        return
    by: dict[tuple[str, str, str | None], list[Written]] = {}
    for each in written:
        if each.records:
            mutation = each.mutation
            by.setdefault((_CALLS[type(mutation)], mutation.actor, mutation.comment), []).append(each)
    pace = Pace()
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
        context.run(partial(_log.info, "change_written", extra=extra))
        await pace.breathe()
