"""Questions about the past, handed on to the service that is followed, with their callers' words."""

import asyncio
import logging

import httpx

from app.core.kafka.errors import ApiException, StoreUnavailableException
from app.upstream.connection import Connection, RefusedError, cut, passed_on, unavailable
from app.upstream.past_replies import InvalidReplyError, check_reply

_MOST_S = 10.0
_NOT_THERE = "the upstream's version does not support past states; upgrade it"

_log = logging.getLogger(__name__)


class UpstreamPast:
    """INVARIANT: nothing is answered here, as a follower has no records and does not remember everything."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def ask(self, path: str, body: bytes) -> bytes:
        where = self._connection.where
        if where is None:
            raise StoreUnavailableException(self._connection.why)
        try:
            async with asyncio.timeout(_MOST_S):
                reply = await self._connection.answer(f"{where}{path}", body, _MOST_S)
            check_reply(path, reply)
        except RefusedError as refused:
            raise _refusal(where, refused) from None
        except InvalidReplyError as fault:
            _log.warning("upstream_reply_strange", extra={"url": where, "why": cut(str(fault))})
            raise StoreUnavailableException(
                f"the upstream `{where}` answers a question about the past, but not as Klamm does; the log says how"
            ) from None
        except (httpx.HTTPError, TimeoutError) as fault:
            raise unavailable(where, fault) from None
        return reply


def _refusal(where: str, refused: RefusedError) -> ApiException:
    problem = refused.problem
    if refused.status == httpx.codes.NOT_FOUND or (problem is not None and "there is no such field" in problem.detail):
        return StoreUnavailableException(_NOT_THERE)
    return passed_on(where, refused)
