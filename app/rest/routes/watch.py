"""watch: the change feed as a stream of events (docs/watch.md)."""

import re
from collections.abc import Sequence
from typing import Annotated

from fastapi import Query
from starlette.requests import Request

from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.validation import validate_filter
from app.core.token import Token
from app.rest.bodies.watch import WATCH_EXAMPLE, WatchQuery
from app.rest.callers.roles import FOLLOWERS
from app.rest.http.arguments import CurrentCaller, CurrentReader, CurrentServices
from app.rest.http.edge import Routes
from app.rest.http.streams import NDJSON, SSE, Connection, EventStream, ReaderRights
from app.runtime.watch.reader import WatchRequest
from app.runtime.watch.reader import watch as watch_feed

routes = Routes("feed")

_FOLLOWERS = re.compile(r"[A-Za-z0-9_.-]{1,64}(?:,[A-Za-z0-9_.-]{1,64}){0,15}", re.ASCII)


@routes.get(
    "/v1/watch",
    name="watch",
    open_to=FOLLOWERS,
    pool="watchers",
    may_refuse=(400, 409, 410, 503),
    example=WATCH_EXAMPLE,
)
async def watch(
    query: Annotated[WatchQuery, Query()],
    request: Request,
    reader: CurrentReader,
    caller: CurrentCaller,
    services: CurrentServices,
) -> EventStream:
    """Follow the change feed: whole transactions, in order and each once, one event per line (docs/feed.md).

    Clients that accept `text/event-stream` get server-sent events; all others get the same events as NDJSON.

    For callers with the role follow; an admin caller needs DESCRIBE and DESCRIBE_CONFIGS on the cluster.
    """
    after, is_follower, media_type = _after(request, query), _is_follower(request), _media_type(request)
    # An EventSource can't send a header, and passes over events that nobody listens for.
    with_epochs = is_follower or media_type == SSE
    acl_filter = query.acl_filter
    refusal = None if acl_filter is None else validate_filter(acl_filter)
    if refusal is not None:
        raise refusal
    authorizer, asked_by = services.authorizer, _asked_by(request)
    if after is not None:
        await authorizer.continues(after, with_epochs=with_epochs, is_follower=is_follower, asked_by=asked_by)
    rights = ReaderRights(services, reader, request)
    connection = Connection(request.scope["klamm.writer"], media_type, rights, authorizer.watchers.rounds)
    lines = watch_feed(
        authorizer.watchers,
        WatchRequest(
            after=after,
            with_epochs=with_epochs,
            acl_filter=acl_filter,
            bookmark_s=query.bookmark_ms / 1000,
            may_watch=rights.check,
            push=connection.push,
            keeps_up=connection.writer.keeps_up,
            caller=caller.share or "",
        ),
    )
    # Whatever refuses comes before the first byte.
    first = await anext(lines)
    return EventStream(connection, first, lines)


def _after(request: Request, query: WatchQuery) -> Token | None:
    last_ids = request.headers.getlist("last-event-id")
    if len(last_ids) > 1:
        raise InvalidRequestException("the header `Last-Event-ID` appears more than once; send it once")
    # A browser that connects again sends the URL of the first time, and what it has seen since.
    after = last_ids[0] if last_ids else query.after
    if after is None and not query.snapshot:
        raise InvalidRequestException(
            "`after` is missing; send it with a token, or `snapshot=true` to start with the whole state"
        )
    return None if after is None else Token.parse(after, "last-event-id" if last_ids else "after")


def _is_follower(request: Request) -> bool:
    """Whether the reader says that it understands how the feed goes on in another epoch."""
    values = request.headers.getlist("klamm-epochs")
    if values not in ([], ["1"]):
        raise InvalidRequestException("the header `Klamm-Epochs` can only be `1`; send that once, or leave it out")
    return bool(values)


def _asked_by(request: Request) -> Sequence[str]:
    """The followers that ask for a position on behalf of one another."""
    values = request.headers.getlist("klamm-followers")
    if not values:
        return ()
    if len(values) > 1 or not _FOLLOWERS.fullmatch(values[0]):
        raise InvalidRequestException(
            "the header `Klamm-Followers` is not a list of ids of followers; leave it out, or send it once as "
            "`ID,ID`, with at most 16"
        )
    return values[0].split(",")


def _media_type(request: Request) -> str:
    """Server-sent events for who asks for them, as browsers do; NDJSON for all others."""
    return SSE if _ASKS_FOR_SSE.search(",".join(request.headers.getlist("accept"))) else NDJSON


_ASKS_FOR_SSE = re.compile(r"(?:^|,)[ \t]*text/event-stream[ \t]*(?:[,;]|$)", re.IGNORECASE)
