"""What a campaign has done and seen: faults in order, checks by number, violations with what led to them."""

import threading
import time
from collections import Counter, deque

_LED_TO = 14
_SHOWN = 40


class Journal:
    """From any thread. Times are seconds since the start."""

    def __init__(self) -> None:
        self._began_at = time.monotonic()
        self._lock = threading.Lock()
        self._steps: deque[str] = deque(maxlen=_LED_TO)
        self._faults: Counter[str] = Counter()
        self._checks: Counter[str] = Counter()
        self._longest: dict[str, tuple[float, str]] = {}
        self._notes: list[str] = []
        self._violations: dict[tuple[str, str], tuple[int, str]] = {}

    @property
    def has_violations(self) -> bool:
        return bool(self._violations)

    def step(self, text: str, fault: str | None = None) -> None:
        """Something that the schedule does."""
        with self._lock:
            line = f"{self._now():7.1f} s  {text}"
            self._steps.append(line)
            if fault is not None:
                self._faults[fault] += 1
        print(line, flush=True)

    def checked(self, what: str, count: int = 1) -> None:
        with self._lock:
            self._checks[what] += count

    def took(self, what: str, seconds: float, whom: str) -> None:
        """Keeps the longest."""
        with self._lock:
            if seconds > self._longest.get(what, (-1.0, ""))[0]:
                self._longest[what] = seconds, f"{whom}, at {self._now():.0f} s"

    def note(self, text: str) -> None:
        """Something to know that breaks no rule."""
        with self._lock:
            self._notes.append(f"{self._now():7.1f} s  {text}")

    def violation(self, rule: str, whom: str, text: str) -> None:
        """One of a rule at a node is shown with what led to it, more are counted."""
        with self._lock:
            count, first = self._violations.get((rule, whom), (0, ""))
            if count == 0:
                led_to = "".join(f"\n      {line}" for line in self._steps)
                first = f"{self._now():7.1f} s  {text}; before it:{led_to}"
                print(f"VIOLATION of {rule} at {whom}: {first}", flush=True)
            self._violations[rule, whom] = count + 1, first

    def report(self) -> str:
        with self._lock:
            lines = [f"ran for {self._now():.0f} s", "faults:"]
            lines += [f"  {count:6} {fault}" for fault, count in sorted(self._faults.items())]
            lines += ["checks:"] + [f"  {count:9,} {what}" for what, count in sorted(self._checks.items())]
            lines += ["longest:"]
            lines += [f"  {seconds:7.2f} s {what} ({whom})" for what, (seconds, whom) in sorted(self._longest.items())]
            lines += ["notes:"] + [f"  {note}" for note in self._notes[:_SHOWN]] if self._notes else []
            lines += [f"violations: {sum(count for count, _ in self._violations.values())}"]
            for (rule, whom), (count, first) in self._violations.items():
                lines.append(f"  {rule} at {whom}, {count} times; the first: {first}")
        return "\n".join(lines)

    def _now(self) -> float:
        return time.monotonic() - self._began_at
