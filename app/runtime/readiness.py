"""Who may be answered, and why not: STARTING -> LOADING -> READY -> (LAGGING | FENCED) -> DRAINING (KIP-801, KIP-504).

The loader reports on image and head; probes and the authorizer ask.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from app.core.image import AuthorizerImage
from app.core.kafka.configs import AuthorizerConfig
from app.runtime.options import RuntimeOptions

MAX_LISTENERS = 64


class State(Enum):
    STARTING = "STARTING"  # nothing runs yet
    LOADING = "LOADING"  # no image yet: super users only
    READY = "READY"  # the image follows the head
    LAGGING = "LAGGING"  # the last good image serves on, but it is not known to follow the head; `checks` says why
    FENCED = "FENCED"  # the image is older than max.staleness.ms: super users only
    DRAINING = "DRAINING"  # still answering, but takes no new callers


@dataclass(frozen=True, slots=True)
class Endpoint:
    listener_name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener_name} {self.security_protocol}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class StartRequest:
    """KIP-504's AuthorizerServerInfo; `cluster_id` None means unchecked."""

    cluster_id: str | None
    broker_id: int
    endpoints: Sequence[Endpoint]
    inter_broker_listener_name: str | None = None


class Readiness:
    """`started` stays true once there was an image. `is_from_state_file`: the source was not seen since the start."""

    def __init__(self, startup: AuthorizerConfig, options: RuntimeOptions) -> None:
        self.started = False
        self.is_from_state_file = False
        self._clock = options.clock.monotonic
        self._config = startup
        self._equal_at = self._clock()
        self._offset = -1
        self._running = False
        self._loaded = False
        self._draining = False
        self._trouble: str | None = None
        self._listeners: dict[str, None] = {}
        self._change = asyncio.Event()

    def loading(self) -> None:
        self._running = True
        self._equal_at = self._clock()

    def published(self, image: AuthorizerImage) -> None:
        self._config = image.config
        self._offset = image.offset
        self._loaded = image.loading_complete
        self.started = self.started or self._loaded
        self._tell()

    def restored(self, age_s: float) -> None:
        """The next image published is the state file's, which equalled the head this long ago."""
        self.is_from_state_file = True
        self._equal_at = self._clock() - age_s

    def current(self, at: float) -> None:
        """The image was seen to equal the head; `at` is the clock's time before that poll."""
        self._equal_at = at
        self._trouble = None
        self.is_from_state_file = False
        self._tell()

    def troubled(self, why: str) -> None:
        self._trouble = why

    def draining(self) -> None:
        self._draining = True
        self._tell()

    def register(self, listeners: Iterable[str]) -> None:
        for name in listeners:
            self._listeners.pop(name, None)
            self._listeners[name] = None
        while len(self._listeners) > MAX_LISTENERS:
            del self._listeners[next(iter(self._listeners))]

    @property
    def age_s(self) -> float:
        """Seconds since the image was last known to equal the head (before the first load: since the start)."""
        return max(0.0, self._clock() - self._equal_at)

    @property
    def fenced(self) -> bool:
        limit = self._config.max_staleness_ms
        return limit is not None and self.age_s * 1000 > limit

    @property
    def state(self) -> State:
        if self._draining:
            return State.DRAINING
        if not self._loaded:
            return State.LOADING if self._running else State.STARTING
        if self.fenced:
            return State.FENCED
        return State.READY if self._trouble is None else State.LAGGING

    def ready(self, listener: str | None = None) -> bool:
        """None asks for the process. Listeners in early.start.listeners need no image: callers there are super users
        or get a 503.
        """
        state = self.state
        if listener is not None and listener in self._config.early_start_listeners:
            return state is not State.DRAINING
        return state in (State.READY, State.LAGGING)

    def checks(self) -> list[tuple[str, bool, str]]:
        state = self.state
        trouble = self._trouble or "none"
        age = f"last known to equal the head {self.age_s:.1f} s ago"
        loaded = f"at offset {self._offset}" if self._loaded else f"not loaded; trouble: {trouble}"
        if self.is_from_state_file:
            loaded += ", from the state file: the source has not been reached since the start"
        limit = self._config.max_staleness_ms
        checks = [
            ("initial-load", self._loaded, loaded),
            ("change-feed", True, f"{state.value.lower()}; {age}; trouble: {trouble}"),
            (
                "staleness",
                not (self._loaded and self.fenced),
                f"{age}; bound: {'off' if limit is None else f'{limit} ms'}",
            ),
            ("shutdown", not self._draining, "draining" if self._draining else "not draining"),
        ]
        for name in self._listeners:
            ready = self.ready(name)
            checks += [(f"listener/{name}", ready, "may start" if ready else "waits")]
        return checks

    async def wait_until_ready(self, listeners: Sequence[str], timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self._draining and not all(map(self.ready, listeners)):
                    await self._change.wait()

    def _tell(self) -> None:
        # This wakes those that wait now; later ones wait for the next change.
        self._change.set()
        self._change.clear()
