"""What a test's machine may have set for Klamm, kept out of the test."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def without_ours() -> dict[str, str]:
    """The environment but for Klamm's variables."""
    return {name: value for name, value in os.environ.items() if not _is_ours(name)}


def leave(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No variable of ours, and this working folder, which has no klamm.toml."""
    for name in filter(_is_ours, list(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)


@contextmanager
def of_a_command(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """As `leave`; a command that runs in here leaves logs and signals as they were before."""
    leave(monkeypatch, folder)
    monkeypatch.setattr("app.cli.database.begin_logging", lambda _: None)
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


def _is_ours(name: str) -> bool:
    return name.upper().startswith("KLAMM_")
