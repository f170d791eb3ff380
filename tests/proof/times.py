"""How long test files take, as tests/proof/durations.py has recorded it of a run of all of them."""

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_UNKNOWN_S = 20.0


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of each file, in a run with so many workers side by side."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    workers: int = 1

    @classmethod
    def load(cls, path: Path) -> "Times":
        """What the file says; without it every file counts as unknown."""
        if not path.exists():
            return cls()
        content = json.loads(path.read_text(encoding="utf-8"))
        return cls(content["seconds"], content["workers"])

    def minutes_of(self, test: str) -> float:
        """By how much the file makes a run longer; one that is not recorded counts as the median of the others."""
        seconds = self.seconds.get(test)
        if seconds is None:
            seconds = statistics.median(self.seconds.values()) if self.seconds else _UNKNOWN_S * self.workers
        return seconds / self.workers / 60
