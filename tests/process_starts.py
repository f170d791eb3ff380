"""Tells when this process starts another one, by Python's audit events.

A start is asked for by whoever needs to know: the gate refuses it (`tests/process_guard.py`), proof notes it. Not seen:
a start by C code, and by `_posixsubprocess` without `subprocess`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

EVENTS = frozenset(
    {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.spawn", "os.system", "pty.spawn"}
)

Observer = Callable[[str], None]
"""Is told the event and the program before the start; what it raises prevents the start."""

_observers: list[Observer] = []


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Tell the observer of each start of a process in here, in whatever thread."""
    _install()
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


@cache
def _install() -> None:
    """Python can't remove an audit hook, so there is one for the life of the process."""
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _observers and event in EVENTS:
        started = f"{event} of {_program(arguments)}"
        for observer in tuple(_observers):
            observer(started)


def _program(arguments: tuple[object, ...]) -> str:
    """The name of the program alone: its arguments and environment may hold secrets."""
    if not arguments or arguments[0] is None:
        return "this program"
    program = arguments[0]
    text = program.decode(errors="replace") if isinstance(program, bytes) else str(program)
    return Path(text.split()[0]).name if text.split() else "this program"
