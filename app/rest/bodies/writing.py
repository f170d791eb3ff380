"""Replies with a list, which may be long: written entry by entry. Tests hold them to the documented models."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from app.rest.bodies.fields import Reply
from app.runtime.pace import Pace

T = TypeVar("T")

to_json = msgspec.json.Encoder().encode


def with_list(name: str, entries: Iterable[bytes], rest: Mapping[str, object]) -> bytes:
    """A body with a list of entries that are JSON already, and some fields more behind it."""
    return b'{"%b":[%b],%b' % (name.encode(), b",".join(entries), to_json(rest)[1:])


async def long_entries(found: Iterable[T], body_of: Callable[[T], Reply]) -> list[bytes]:
    """Entries of a list as JSON, where one alone may take long: it may hold dozens of ACLs."""
    pace, entries = Pace(), list[bytes]()
    for each in found:
        entries.append(to_json(body_of(each)))
        await pace.breathe()
    return entries
