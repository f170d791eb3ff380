"""Who may write into a home on an object store: one run holds an object by conditional puts, and renews it.

No two clocks are compared. A run that can't renew in time stops; another one takes the lease only after it has seen it
unchanged for longer than that. `generation` goes up with every holder.
"""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.s3_object import S3Object

_EXPIRES_S = 60.0
# Shares of that: how often it is renewed, how long a holder relies on the last time, how often others look.
_RENEWED, _KEPT, _LOOKED = 1 / 6, 3 / 4, 1 / 20
_WAY_OUT = "wait for it, or stop it"


class Lease:
    """`on_loss` is called, in a separate thread, when another run may have taken it."""

    def __init__(
        self, kept_in: S3Object, *, expires_s: float = _EXPIRES_S, on_loss: Callable[[], None] | None = None
    ) -> None:
        self._object = kept_in
        self._expires_s = expires_s
        self._on_loss = _interrupt if on_loss is None else on_loss
        self._held: dict[str, Any] = {}
        self._tag: str | None = None
        self._kept_at = 0.0
        self._ended = threading.Event()
        self._lost = threading.Event()
        self._losing = threading.Lock()
        self._threads = [
            # A put may hang for longer than the lease lasts.
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("klamm-lease-renewal", self._renew_on), ("klamm-lease-watch", self._watch_clock))
        ]
        self.generation = 0

    def acquire(self, job: str, note: Callable[[str], None]) -> None:
        found, tag = self._read()
        if found.get("run"):
            note(f"{_whose(found)} holds the lease; waiting up to {self._expires_s:.0f} s for it to be renewed")
            self._await_expiry(found, tag)
        self.generation = int(found.get("generation", 0)) + 1
        self._held = {
            "generation": self.generation,
            "run": str(uuid4()),
            "job": job,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds"),
        }
        if not self._put(tag):
            raise PipelineError(f"{_whose(self._read()[0])} is running at `{self._object.url}`; {_WAY_OUT}")
        for each in self._threads:
            each.start()

    def check(self) -> None:
        if self._lost.is_set() or self._is_over():
            self._lost.set()
            raise PipelineError(
                f"this run could not renew `{self._object.url}` for {_KEPT * self._expires_s:.0f} s, so another one "
                "may be running there; it has stopped. Check the connection to the object store, and run this again"
            )

    def release(self) -> None:
        self._ended.set()
        for each in self._threads:
            if each.is_alive():
                each.join(self._expires_s * _RENEWED)
        if self._lost.is_set() or self._is_over():
            return
        self._held["run"] = None
        try:
            self._object.write(self._text(), self._tag)
        except PipelineError:
            # It expires.
            return

    def _is_over(self) -> bool:
        return time.monotonic() - self._kept_at > _KEPT * self._expires_s

    def _await_expiry(self, found: dict[str, Any], tag: str | None) -> None:
        deadline = time.monotonic() + self._expires_s
        while time.monotonic() < deadline:
            time.sleep(_LOOKED * self._expires_s)
            now, tag_now = self._read()
            if tag_now != tag and now.get("run"):
                raise PipelineError(f"{_whose(now)} is running at `{self._object.url}`; {_WAY_OUT}")
            if tag_now != tag:
                raise PipelineError(f"{_whose(found)} has just ended at `{self._object.url}`; run this again")

    def _renew_on(self) -> None:
        while not self._ended.wait(_RENEWED * self._expires_s) and not self._lost.is_set():
            try:
                if not self._put(self._tag):
                    self._lose()
                    return
            except PipelineError:
                # The next one may get through in time.
                continue

    def _watch_clock(self) -> None:
        while not self._ended.wait(_LOOKED * self._expires_s) and not self._lost.is_set():
            if self._is_over():
                self._lose()

    def _lose(self) -> None:
        with self._losing:
            is_news = not self._lost.is_set() and not self._ended.is_set()
            self._lost.set()
        if is_news:
            self._on_loss()

    def _put(self, tag: str | None) -> bool:
        """False if another run holds it. Raises PipelineError if the store can't be asked."""
        began = time.monotonic()
        self._object.write(self._text(), tag)
        # What was refused may have been written by an attempt whose answer was lost.
        found, found_tag = self._read()
        if found.get("run") != self._held["run"]:
            return False
        if found_tag == tag:
            # A run that waits for its expiry has seen no change.
            raise PipelineError(f"`{self._object.url}` was not renewed; run this again")
        self._tag, self._kept_at = found_tag, began
        return True

    def _text(self) -> bytes:
        # Each text is different, so no tag comes twice.
        return json.dumps({**self._held, "renewed": str(uuid4())}, sort_keys=True).encode()

    def _read(self) -> tuple[dict[str, Any], str | None]:
        there = self._object.read()
        if there is None:
            return {}, None
        try:
            document = json.loads(there[0])
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise PipelineError(f"`{self._object.url}` is damaged; delete it while no job is running in that home")
        return document, there[1]


def _whose(document: dict[str, Any]) -> str:
    job, host, pid, since = (document.get(name, "?") for name in ("job", "host", "pid", "since"))
    return f"another {job} (process {pid} on {host}, since {since})"


def _interrupt() -> None:
    # Spark's own handler cancels what runs, and raises KeyboardInterrupt. A signal to the process may reach another
    # thread, and then does not wake the main one.
    signal.pthread_kill(threading.main_thread().ident or threading.get_ident(), signal.SIGINT)
