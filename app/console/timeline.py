"""A resource's past as stops of a slider: the states after its own transactions."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.console.api import if_in_time
from app.console.pages import HOME, Pages, to
from app.console.shown import query
from app.console.visits import Json, Visit, number_in
from app.core.kafka.codes import ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.token import Token
from app.rest.http.edge import Reply

pages = Pages()

_CHANGES = 200


class Stop(NamedTuple):
    """A state after a transaction: its token, the newest of the transaction's changes here, and their number."""

    token: str
    change: Json
    change_count: int


class Timeline(NamedTuple):
    """`stops` begin with the oldest; `place` is that of the state shown, -1: before all stops. `made` has, by ACL id,
    the change that created each ACL shown, if it is among the last changes; `known` is the history's reply with these,
    None if it did not come in time.
    """

    stops: Sequence[Stop]
    place: int
    earlier: str | None
    later: str | None
    made: Mapping[str, Json]
    known: Json | None


def covering(resource_type: ResourceType, name: str) -> Mapping[str, str]:
    """A filter for every ACL on the resource, or with a pattern that covers it."""
    return {"resource_type": resource_type.name, "resource_name": name, "pattern_type": "MATCH"}


async def timeline(visit: Visit, acl_filter: Mapping[str, str], token: str) -> Timeline:
    """The last changes of these ACLs around the state `token`; no stops if the store doesn't answer in time."""
    known = await if_in_time(_known(visit, acl_filter))
    changes = known["changes"] if known else []
    stops = _stops(changes)
    place = _place(stops, token)
    is_between = place >= 0 and visit.at is not None and not _is_in(token, Token.parse(stops[place].token))
    before = place if is_between else place - 1
    return Timeline(
        stops,
        place,
        stops[before].token if before >= 0 else None,
        stops[place + 1].token if place + 1 < len(stops) else None,
        _made(changes, token),
        known,
    )


async def _known(visit: Visit, acl_filter: Mapping[str, str], **more: str) -> Json:
    """The last changes, the newest first."""
    found: Json = await visit.api.post("/v1/history", {"filter": acl_filter, "limit": _CHANGES, **more})
    return found


def _stops(changes: Sequence[Json]) -> list[Stop]:
    by_token: dict[str, list[Json]] = {}
    for each in changes:
        by_token.setdefault(each["transaction"], []).append(each)
    return [Stop(token, group[0], len(group)) for token, group in reversed(by_token.items())]


def _made(changes: Sequence[Json], token: str) -> Mapping[str, Json]:
    shown, made = Token.parse(token), {}
    for each in reversed(changes):
        if each["change"] == "CREATED" and _is_in(each["token"], shown):
            made[each["acl"]["id"]] = each
    return made


def _place(stops: Sequence[Stop], token: str) -> int:
    shown = Token.parse(token)
    return next((at for at in reversed(range(len(stops))) if _is_in(stops[at].token, shown)), -1)


def _is_in(token: str, shown: Token) -> bool:
    """Whether the state shown continues the other. Both are of one history, whatever their epochs."""
    return Token.parse(token).offset <= shown.offset


@pages.get("/resource/at")
async def resource_at(visit: Visit) -> Reply:
    """The state where the slider was released. `until` was its last stop when drawn, so a later change moves none."""
    type_word, name = visit.query.get("type", ""), visit.query.get("name", "")
    resource_type = ResourceType.__members__.get(type_word)
    if resource_type is None or not name:
        raise InvalidRequestException("`type` and `name` do not name a resource; go back and choose one")
    known = await _known(visit, covering(resource_type, name), until=visit.query.get("until", ""))
    stops = _stops(known["changes"])
    place = number_in(visit.query.get("stop", ""))
    if place is None or place >= len(stops):
        raise InvalidRequestException(
            f"`stop` is not one of the {len(stops)} known changes; go back and reload the page"
        )
    kept = {"type": type_word, "name": name, "host": visit.query.get("host")}
    # The last stop is the present state, from which the page follows changes.
    at = None if place == len(stops) - 1 else stops[place].token
    return to(f"{HOME}/resource?{query({**kept, 'at': at})}")
