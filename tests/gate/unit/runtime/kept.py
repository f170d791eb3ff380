"""Replicas that keep their image in a folder, on a store in memory and in virtual time."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.core.token import Token
from app.formats.feed_events import Bookmark, decode
from app.formats.feed_seals import Seals
from app.runtime.authorizer import Authorizer
from app.runtime.options import StateOptions
from tests.fakes import FakeStore
from tests.virtual_time import EPOCH_S, VIRTUAL_CLOCK, now
from tests.world import OPTIONS, authorizer_on


async def at_once(work: Callable[..., Any], *arguments: object, **named: object) -> object:
    """In place of a thread, for which virtual time would not wait."""
    await asyncio.sleep(0)
    return work(*arguments, **named)


ORIGIN = frozenset({"a" * 64})


def state_in(folder: Path, **changes: Any) -> StateOptions:  # noqa: ANN401 - of StateOptions
    return replace(StateOptions(path=folder / "state", origin=ORIGIN), **changes)


def keeping(store: FakeStore, state: StateOptions, later_s: float = 0.0) -> AbstractAsyncContextManager[Authorizer]:
    """A replica that loads. Its wall clock goes with virtual time, `later_s` ahead of it."""
    clock = replace(VIRTUAL_CLOCK, wall=lambda: EPOCH_S + later_s + now())
    return authorizer_on(store, replace(OPTIONS, state=state, clock=clock), ready=False)


def file_of(folder: Path) -> Path:
    return folder / "state" / "image.ndjson"


def bookmarks_in(folder: Path) -> list[Bookmark]:
    file = file_of(folder)
    lines = file.read_bytes().splitlines() if file.exists() else []
    return [each for each in map(decode, lines) if isinstance(each, Bookmark)]


def kept_offset(folder: Path) -> int:
    found = bookmarks_in(folder)
    return Token.parse(found[-1].token).offset if found else -1


def resealed(content: bytes, **changes: bytes) -> bytes:
    """As somebody would who knows the format, but no key: bytes replaced, and every seal made anew."""
    for before, after in changes.items():
        content = content.replace(before.encode(), after)
    seals, made = Seals(None), b""
    for line in content.splitlines(keepends=True):
        if line.startswith(b'{"type":"seal"'):
            made += seals.next()
        else:
            seals.cover(line)
            made += line
    return made


async def until_true(condition: Callable[[], bool]) -> None:
    """As `until`, for what takes seconds: it looks twice a second."""
    for _ in range(240):
        if condition():
            return
        await asyncio.sleep(0.5)
    raise AssertionError("it never came true")


async def until_kept(folder: Path, store: FakeStore) -> None:
    await until_true(lambda: kept_offset(folder) == store.tables.last_offset)
