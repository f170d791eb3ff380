"""The feed's events for people: a line a change, harmless to a terminal."""

from collections.abc import Iterator
from typing import NamedTuple

from app.client.plan.output import acl_line, plainly
from app.client.words import counted
from app.core.kafka.bindings import rfc3339
from app.core.records import AccessControlEntryRecord, ConfigRecord
from app.formats.acl_entries import quoted, terms_note
from app.formats.feed_events import (
    Acls,
    Bookmark,
    Configs,
    End,
    Event,
    FeedAcl,
    FeedRecord,
    Snapshot,
    Synced,
    Transaction,
    acl_in,
)


class Line(NamedTuple):
    text: str
    style: str = ""


def lines_of(event: Event, *, bookmarks: bool) -> Iterator[Line]:
    """Raises NoEventError for an ACL with words that this version does not know."""
    match event:
        case Snapshot():
            properties = "1 property" if event.config_count == 1 else f"{event.config_count} properties"
            yield Line(f"{counted(event.acl_count)} and {properties} as of {event.token}:")
        case Acls():
            yield from (Line(f"  {_acl(each)}") for each in event.acls)
        case Configs():
            yield from (Line(f"  {_property(name, value)}") for name, value in event.configs.items())
        case Synced():
            yield Line("and from here on what changes:")
        case Transaction():
            moment = rfc3339(event.recorded_at)
            yield from (_change(moment, each) for each in event.records)
        case Bookmark() if bookmarks:
            moment = "" if event.store_time is None else f"{rfc3339(event.store_time)} "
            yield Line(f"{moment}nothing more up to {event.token}, {event.age_ms} ms ago", "dim")
        case Bookmark() | End():
            pass


def _change(moment: str, record: FeedRecord) -> Line:
    comment = "" if record.comment is None else f" {quoted(record.comment)}"
    begin = f"{moment} {plainly(record.actor)}"
    if isinstance(record.acl, FeedAcl):
        sign, style = ("+", "green") if record.kind == AccessControlEntryRecord.__name__ else ("-", "red")
        return Line(f"{begin} {sign} {_acl(record.acl)}{comment}", style)
    if record.kind == ConfigRecord.__name__ and isinstance(record.name, str):
        value = record.value if isinstance(record.value, str) else None
        return Line(f"{begin} = {_property(record.name, value)}{comment}", "yellow")
    return Line(f"{begin} ? a {plainly(record.kind)}, which this klamm does not know{comment}")


def _acl(fields: FeedAcl) -> str:
    acl = acl_in(fields)
    return f"{acl_line(acl.binding)}{terms_note(acl)}"


def _property(name: str, value: str | None) -> str:
    return f"{plainly(name)}: {'back to its start-up value' if value is None else quoted(value)}"
