"""How a follower goes on: which URL it asks for what, which snapshot it believes, and when it leaves a stream.

One state machine for the service's follower and for the plugin of a Kafka broker (its class Following says the same in
Java). Both are tested by one table of cases, tests/following/cases.jsonl. Time is in seconds of a clock that never goes
back; who drives the machine adds rests between its questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from app.core.epochs import Cause, Epoch, Epochs, is_later, may_replace
from app.core.token import Token

NO_BOOKMARK_S = 10.0
"""A stream is left when no bookmark has come for so long, whatever else came."""
STALE_S = 10.0
"""From this age on, other URLs are probed."""
FRESHER_S = 5.0
"""So much fresher another URL must be to be followed instead."""
STAY_S = 10.0
"""At most one change of URL in this time, unless the stream broke."""
PROBE_EVERY_S = 5.0
PROBED_S = 30.0
"""For so long the answer to a probe is used."""
OPENING_S = 16.0
"""The first event must come within this time: a service that is behind waits some seconds before it says so."""
SNAPSHOT_S, ACLS_PER_S = 15.0, 2_000
"""A snapshot must be complete within this time, and a second more for so many ACLs of it that have come.

A promise alone gains no time: who promises a million ACLs and then stalls would hold a follower for minutes.
"""
SNAPSHOT_BYTES, BYTES_PER_ROW = 1 << 20, 512 << 10
"""A snapshot may have this many bytes, and so many more for each row that it promises."""

_LOST, _INVALID, _TRIMMED = "TOKEN_EPOCH_MISMATCH", "TOKEN_EPOCH_INVALID", "OFFSET_OUT_OF_RANGE"


@dataclass(frozen=True, slots=True)
class Ask:
    """The request to send next: the changes after a position, or a snapshot and why one is needed."""

    url: int
    after: Token | None
    cause: Cause | None = None


class Action(Enum):
    """What to do with the stream that is being read."""

    STAY = "read on"
    LEAVE = "close it, and ask what `ask` says"
    PROBE = "ask the URL that `probe_url` names how old its state is, and read on"


@dataclass(slots=True)
class _Promise:
    """What the header of a snapshot has promised, and what has come of it."""

    token: Token
    epochs: Epochs
    acls: int
    configs: int
    began_at: float
    acls_came: int = 0
    bytes_came: int = 0


class Following:
    """What one follower holds, and from whom. The URLs are numbered from 0.

    Methods that return a bool say whether the stream is read on; if not, close it and ask what `ask` says.
    """

    def __init__(self, urls: int, held: Token | None = None, epochs: Epochs | None = None) -> None:
        self.held = held
        """The position up to which everything is held."""
        self.epochs = epochs if epochs is not None or held is None else Epochs.only(held.epoch)
        """The epochs of the history that is held, up to the position."""
        self.probe_url = -1
        self._urls = urls
        self._url = 0
        self._cause: Cause | None = None
        self._promise: _Promise | None = None
        self._deadline: float | None = None
        """When the stream is left if nothing that counts has come; None: there is no stream."""
        self._equal_at: float | None = None
        """When the state that is held was last known to equal the head of the store."""
        self._is_told = False
        """Whether the stream has said how old its state is."""
        self._changed_at: float | None = None
        """When a stream that had not broken was last left for a fresher one."""
        self._probed: dict[int, tuple[float, float]] = {}
        """By URL: when its state equalled the head, and when it was asked."""
        self._probed_at: float | None = None

    @property
    def ask(self) -> Ask:
        if self.held is None:
            return Ask(self._url, None, self._cause or Cause.NOTHING_HELD)
        return Ask(self._url, None, self._cause) if self._cause is not None else Ask(self._url, self.held)

    @property
    def is_taking_snapshot(self) -> bool:
        return self._promise is not None

    def age_s(self, now: float) -> float | None:
        """How old the state is that is held; None until somebody has said so."""
        return None if self._equal_at is None else max(0.0, now - self._equal_at)

    def resume(self, held: Token | None, epochs: Epochs | None, equal_at: float | None) -> None:
        """Goes on from a state of one's own, such as a state file's; None: from nothing."""
        self.held, self.epochs, self._equal_at = held, epochs, equal_at

    # what the request was answered

    def opened(self, now: float) -> None:
        """The request is sent. From now on time counts, so that neither a connection nor a header takes for ever."""
        self._promise, self._deadline, self._is_told = None, now + OPENING_S, False
        if self.ask.after is not None:
            self._deadline = now + NO_BOOKMARK_S

    def refused(self, code: str | None, now: float) -> None:
        """The request was refused with this code; None: not by a code of Klamm's, or nobody could be reached."""
        cause = {_LOST: Cause.LOST, _INVALID: Cause.INVALID_POSITION, _TRIMMED: Cause.TRIMMED}.get(code or "")
        if cause is not None and self.ask.after is not None:
            self._cause, self._deadline = cause, None
        else:
            self.broke(now)

    # what the stream has brought

    def snapshot(self, token: Token, epochs: Sequence[tuple[UUID, int]], acls: int, configs: int, now: float) -> bool:
        """The header of a snapshot; `epochs` may be empty, as an older service does not send them."""
        cause = self.ask.cause
        if self._promise is not None or cause is None or acls < 0 or configs < 0 or self._deadline is None:
            return self._fail(now)
        table = _table(token, epochs)
        if table is None or not may_replace(self.held, token, table, cause):
            return self._fail(now)
        self._promise = _Promise(token, table, acls, configs, now)
        self._deadline = now + SNAPSHOT_S
        return True

    def acls(self, count: int, size: int, now: float) -> bool:
        """A part of the snapshot: so many ACLs in so many bytes."""
        promise = self._promise
        if promise is None:
            return self._fail(now)
        promise.acls_came += count
        if promise.acls_came > promise.acls:
            return self._fail(now)
        self._deadline = promise.began_at + SNAPSHOT_S + promise.acls_came / ACLS_PER_S
        return self._takes(promise, size, now)

    def configs(self, count: int, size: int, now: float) -> bool:
        promise = self._promise
        if promise is None or count > promise.configs:
            return self._fail(now)
        return self._takes(promise, size, now)

    def synced(self, token: Token, now: float) -> bool:
        """The end of the snapshot, whose rows have passed all checks."""
        promise = self._promise
        if promise is None or token != promise.token or promise.acls_came != promise.acls:
            return self._fail(now)
        self.held, self.epochs = promise.token, promise.epochs
        self._promise = self._cause = None
        # INVARIANT: a snapshot is no proof of its age; only a bookmark says how old its sender's state is.
        self._deadline = now + NO_BOOKMARK_S
        return True

    def epoch(self, epoch: UUID, first_offset: int, now: float) -> bool:
        held, epochs = self.held, self.epochs
        if not self._is_following() or held is None or epochs is None:
            return self._fail(now)
        if first_offset != held.offset or not is_later(epoch, epochs.last):
            return self._fail(now)
        self.held, self.epochs = Token(epoch, held.offset), epochs.begun(epoch, first_offset)
        return True

    def transaction(self, token: Token, first_offset: int, now: float) -> bool:
        """A whole transaction, whose hash follows from what is held."""
        held = self.held
        if not self._is_following() or held is None:
            return self._fail(now)
        if token.epoch != held.epoch or first_offset != held.offset + 1 or token.offset < first_offset:
            return self._fail(now)
        self.held = token
        return True

    def bookmark(self, token: Token, age_s: float, now: float) -> bool:
        """Where the stream stands, with the hash of what is held; so old is its sender's state."""
        if not self._is_following() or token != self.held:
            return self._fail(now)
        equal_at = now - max(0.0, age_s)
        self._equal_at = equal_at if self._equal_at is None else max(equal_at, self._equal_at)
        self._is_told, self._deadline = True, now + NO_BOOKMARK_S
        return True

    def failed_check(self, now: float) -> None:
        """Something did not fit, or could not be read: a hash, a digest, a record of a later version."""
        self._fail(now)

    def broke(self, now: float) -> None:
        """The stream has ended, or nobody was reached: the next URL is asked to go on."""
        # INVARIANT: who did not choose the stream that follows may leave it as soon as it is known to be old.
        self._changed_at = None
        self._probed.pop(self._url, None)
        self._change(self._freshest_other(now))

    # what time brings

    def check(self, now: float) -> Action:
        """Call this at least every second, and after each event. Unknown events change nothing here."""
        if self._deadline is None:
            return Action.STAY
        if now > self._deadline:
            self.broke(now)
            return Action.LEAVE
        age_s = self.age_s(now)
        if self._urls == 1 or not self._is_told or age_s is None or age_s <= STALE_S:
            return Action.STAY
        fresher = self._fresher(now)
        if fresher is not None and (self._changed_at is None or now - self._changed_at >= STAY_S):
            self._changed_at = now
            self._change(fresher)
            return Action.LEAVE
        if self._probed_at is not None and now - self._probed_at < PROBE_EVERY_S:
            return Action.STAY
        self._probed_at = now
        self.probe_url = (max(self.probe_url, 0) + 1) % self._urls
        if self.probe_url == self._url:
            self.probe_url = (self.probe_url + 1) % self._urls
        return Action.PROBE

    def probed(self, url: int, code: str | None, age_s: float | None, now: float) -> None:
        """What a Probe of another URL brought, or by which code the position was refused there.

        Who says that the position is not a part of the history knows the history's head.
        """
        if code in (_LOST, _INVALID, _TRIMMED):
            age_s = 0.0
        if age_s is None:
            self._probed.pop(url, None)
        else:
            self._probed[url] = now - max(0.0, age_s), now

    # inside

    def _is_following(self) -> bool:
        return self._deadline is not None and self._promise is None and self._cause is None

    def _takes(self, promise: _Promise, size: int, now: float) -> bool:
        promise.bytes_came += size
        rows = promise.acls + promise.configs
        return promise.bytes_came <= SNAPSHOT_BYTES + rows * BYTES_PER_ROW or self._fail(now)

    def _fail(self, now: float) -> bool:
        """After a snapshot that failed the next URL is asked; else this one, for a snapshot."""
        if self._deadline is None or self._cause is not None or self.held is None:
            self.broke(now)
        else:
            self._cause, self._promise, self._deadline = Cause.FAILED_CHECK, None, None
        return False

    def _change(self, url: int) -> None:
        self._url, self._cause, self._promise, self._deadline = url, None, None, None

    def _fresher(self, now: float) -> int | None:
        """The URL with the freshest state, if that is fresher enough than what is held."""
        answers = [(at, url) for url, at in self._known(now).items() if url != self._url]
        if not answers or self._equal_at is None or max(answers)[0] - self._equal_at < FRESHER_S:
            return None
        return max(answers)[1]

    def _freshest_other(self, now: float) -> int:
        """The next URL; where others have said how old their state is, the freshest of them."""
        known = {url: at for url, at in self._known(now).items() if url != self._url}
        return max(known, key=lambda url: known[url]) if known else (self._url + 1) % self._urls

    def _known(self, now: float) -> dict[int, float]:
        return {url: at for url, (at, asked_at) in self._probed.items() if now - asked_at <= PROBED_S}


class Probe:
    """What the bookmarks of another URL say of its state.

    A bookmark that is followed by more is as old as the records that were sent before it, not as the sender's state.
    """

    def __init__(self) -> None:
        self.age_s: float | None = None
        self._token: Token | None = None

    def bookmark(self, token: Token, age_s: float) -> bool:
        """Whether more is read: not once it is fresh, or the sender had no more to send."""
        is_last = token == self._token or age_s <= STALE_S - FRESHER_S
        self._token, self.age_s = token, max(0.0, age_s)
        return not is_last


def _table(token: Token, rows: Sequence[tuple[UUID, int]]) -> Epochs | None:
    """The epochs of a snapshot; None if they are not those of its token."""
    if not rows:
        return Epochs.only(token.epoch)
    try:
        epochs = Epochs.of(Epoch(epoch, first_offset) for epoch, first_offset in rows)
    except ValueError:
        return None
    return epochs if epochs.last == token.epoch and epochs.rows[-1].first_offset <= token.offset else None
