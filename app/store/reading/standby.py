"""How far behind a hot standby may be."""

from datetime import datetime, timedelta

import asyncpg

from app.formats.clock import Clock


class StandbyAge:
    """A standby knows of nothing later than what it has replayed, which has its time by the primary's clock.

    That clock may be ahead. So what is replayed is taken to be no later than when this service first read of it. Where
    the server or this service has just begun, and that time lies ahead, nothing new need have been replayed: it stays
    as old as it was, or as the server. It is younger where that is all that the primary had when the standby last heard
    of it, and the role may see so. What the primary sent may have been long on its way.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._replayed_to: datetime | None = None
        self._server_start: datetime | None = None
        self._read_at = 0.0

    def age_s(self, row: asyncpg.Record) -> float:
        """Of a row of the poll; 0 on a primary."""
        replayed_to: datetime | None = row["replayed_to"]
        if replayed_to is None:
            return 0.0
        now: datetime = row["store_time"]
        monotonic = self._clock.monotonic()
        self._read(replayed_to, row["server_start"], now, monotonic)
        age_s = max(_seconds(now - replayed_to), monotonic - self._read_at)
        heard_at: datetime | None = row["heard_at"]
        return age_s if heard_at is None else min(age_s, _seconds(now - heard_at))

    def _read(self, replayed_to: datetime, server_start: datetime, now: datetime, monotonic: float) -> None:
        has_begun, is_first = server_start != self._server_start, self._server_start is None
        if replayed_to != self._replayed_to:
            if not has_begun or replayed_to <= now:
                self._read_at = monotonic
            elif is_first:
                self._read_at = monotonic - _seconds(now - server_start)
        self._replayed_to, self._server_start = replayed_to, server_start


def _seconds(duration: timedelta) -> float:
    return max(0.0, duration.total_seconds())
