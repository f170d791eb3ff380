"""Updates, handed on to the service that is followed, with their callers' words and this follower's credentials."""

import asyncio
import logging
from collections.abc import Iterable

import httpx

from app.core.continuity import KnownHistory
from app.core.kafka.errors import ApiException, RequestTimedOutException, StoreUnavailableException
from app.core.mutations import ExpireAcls, GroupOutcome, Mutation, Outcome
from app.upstream.bodies import StrangeReplyError, body_of, outcome_in
from app.upstream.change_feed import UpstreamChangeFeed
from app.upstream.connection import Connection, RefusedError, passed_on

_log = logging.getLogger(__name__)

_AT_ONCE = 16
_SERVICE_SHARE = 0.9
"""The share of the time that the upstream may take, so that it is the first to report a timeout."""
_MOST_S = 27.0
"""Less than the mutator gives a group."""
_UNKNOWN = "the upstream gave no answer; the outcome of the update is unknown, check before you repeat it"


class UpstreamAclStore:
    """Each mutation is a separate call, and so a separate transaction; those of a group run concurrently."""

    def __init__(self, connection: Connection, feed: UpstreamChangeFeed) -> None:
        self._connection = connection
        self._feed = feed
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def write(self, mutations: Iterable[Mutation], known: KnownHistory) -> GroupOutcome:  # noqa: ARG002 - the upstream proves its store's history by itself
        where = self._connection.where
        if where is None:
            # Until then no update is under way.
            raise StoreUnavailableException(self._connection.why)
        outcomes = await asyncio.gather(*(self._hand_on(where, each) for each in mutations))
        if outcomes and all(isinstance(each, StoreUnavailableException) for each in outcomes):
            raise StoreUnavailableException(next(str(each) for each in outcomes))
        tokens = [each.token for each in outcomes if not isinstance(each, ApiException) and each.token is not None]
        token = tokens[-1] if tokens else self._feed.token
        return GroupOutcome(outcomes, token.epoch, token.offset)

    async def close(self) -> None:
        """The feed closes the connection that both share."""

    async def _hand_on(self, where: str, mutation: Mutation) -> Outcome | ApiException:
        if isinstance(mutation, ExpireAcls):
            # No poll of an upstream leads to one.
            return StoreUnavailableException("ACLs that have ended are removed by the service that has the database")
        asked_s = mutation.timeout_s
        timeout_s = min(self._connection.options.request_timeout_s if asked_s is None else asked_s, _MOST_S)
        async with self._turns:
            try:
                path, body = await body_of(mutation, max(1, round(timeout_s * _SERVICE_SHARE * 1000)))
                async with asyncio.timeout(timeout_s):
                    reply = await self._connection.answer(f"{where}{path}", body, timeout_s)
                return await outcome_in(mutation, reply)
            except RefusedError as refused:
                return _refusal(where, refused)
            except ApiException as refusal:
                return refusal
            except (httpx.HTTPError, TimeoutError):
                return RequestTimedOutException(_UNKNOWN)
            except StrangeReplyError as fault:
                _log.warning("upstream_reply_strange", extra={"url": where, "why": str(fault)})
                return RequestTimedOutException(_UNKNOWN)


def _refusal(where: str, refused: RefusedError) -> ApiException:
    status = refused.status
    if refused.problem is None and httpx.codes.is_server_error(status) and status != httpx.codes.SERVICE_UNAVAILABLE:
        # A proxy's answer does not tell the outcome of the update.
        return RequestTimedOutException(_UNKNOWN)
    return passed_on(where, refused)
