"""The feed's events for people: a line a change, harmless to a terminal."""

from collections.abc import Iterator, MutableMapping
from typing import NamedTuple
from uuid import UUID

from app.client.acl_texts import terms_note, terms_text
from app.client.plan.output import acl_line
from app.client.words import counted
from app.core.kafka.bindings import AclTerms, rfc3339
from app.core.readable import quoted_name, quoted_text, readable
from app.core.records import AccessControlEntryRecord, ConfigRecord
from app.formats.feed_events import (
    Acls,
    Bookmark,
    Configs,
    End,
    EpochBegan,
    Event,
    FeedAcl,
    FeedRecord,
    Snapshot,
    Synced,
    Transaction,
)
from app.formats.feed_values import acl_in


class Line(NamedTuple):
    text: str
    style: str = ""


Seen = MutableMapping[UUID, AclTerms]
"""The terms, by id, of each ACL that was created and not removed since."""


def lines_of(event: Event, seen: Seen, *, bookmarks: bool) -> Iterator[Line]:
    """Read it to the end. Raises NoEventError for an ACL with words that this version does not know."""
    match event:
        case Snapshot():
            properties = "1 property" if event.config_count == 1 else f"{event.config_count} properties"
            seen.clear()
            yield Line(f"{counted(event.acl_count)} and {properties} as of {event.token}:")
        case Acls():
            seen.update((each.id, AclTerms(each.expires_at, each.owner)) for each in event.acls)
            yield from (Line(f"  {_acl(each)}") for each in event.acls)
        case Configs():
            yield from (Line(f"  {_property(name, value)}") for name, value in event.configs.items())
        case Synced():
            yield Line("changes from here on:")
        case Transaction():
            moment = rfc3339(event.recorded_at)
            yield from (_change(moment, each, seen) for each in event.records)
        case Bookmark() if bookmarks:
            moment = "" if event.store_time is None else f"{rfc3339(event.store_time)} "
            yield Line(f"{moment}no more changes up to {event.token}, {event.age_ms} ms ago", "dim")
        case Bookmark() | EpochBegan() | End():
            pass


def _change(moment: str, record: FeedRecord, seen: Seen) -> Line:
    comment = "" if record.comment is None else f" {quoted_text(record.comment)}"
    begin = f"{moment} {readable(record.actor)}"
    if isinstance(record.acl, FeedAcl):
        acl = record.acl
        before = seen.pop(acl.id, None)
        if record.kind != AccessControlEntryRecord.__name__:
            return Line(f"{begin} - {_acl(acl)}{comment}", "red")
        seen[acl.id] = AclTerms(acl.expires_at, acl.owner)
        if before is None:
            return Line(f"{begin} + {_acl(acl)}{comment}", "green")
        return Line(f"{begin} ~ {_acl(acl)}, before: {terms_text(before)}{comment}", "yellow")
    if record.kind == ConfigRecord.__name__ and isinstance(record.name, str):
        value = record.value if isinstance(record.value, str) else None
        return Line(f"{begin} = {_property(record.name, value)}{comment}", "yellow")
    return Line(f"{begin} ? a {readable(record.kind)}, which this klamm does not know{comment}")


def _acl(fields: FeedAcl) -> str:
    acl = acl_in(fields)
    return f"{acl_line(acl.binding)}{terms_note(acl)}"


def _property(name: str, value: str | None) -> str:
    return f"{readable(name)}: {'back to its start-up value' if value is None else quoted_name(value)}"
