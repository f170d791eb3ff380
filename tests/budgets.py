"""How much is drawn at each level: the one table.

A level is the profile of hypothesis with its name, which pytest gets as `--hypothesis-profile`; it is `gate` if none is
given. `check` and `gate` draw the same each time. `proof` draws much more, and anew: `make proof` prints the seed that
repeats it.
"""

import random
from typing import NamedTuple

from hypothesis import HealthCheck, settings


class Budget(NamedTuple):
    check: int
    gate: int
    proof: int


TABLE = {
    # Examples of hypothesis: whoever names no row of the table draws so many.
    "law": Budget(25, 100, 1_000),
    "law of several steps": Budget(15, 60, 600),
    "law of whole stores": Budget(4, 15, 150),
    # Seeds, each of a random case.
    "round trips": Budget(50, 300, 1_000),
    "assertions": Budget(100, 300, 100_000),
    "flips": Budget(1, 3, 600),
    "nested hosts": Budget(10, 40, 2_000),
    "what a principal can do": Budget(2, 8, 200),
    "who can do it": Budget(2, 8, 400),
    "proposals": Budget(25, 100, 1_000),
    "fewest proposals": Budget(10, 40, 1_000),
    # For each format.
    "mutations": Budget(50, 300, 10_000),
    "snapshots": Budget(2, 8, 25),
    "histories": Budget(1, 2, 50),
    "regions of hosts": Budget(50, 200, 2_000),
    "reach of teams": Budget(5, 25, 250),
    # One of so many: the rest is left out.
    "lines of the vectors": Budget(40, 10, 1),
    "places to cut": Budget(20, 5, 1),
    "routes": Budget(8, 8, 1),
}


def register_profiles() -> None:
    """One for each level. No test fails for having been slow: neighbours take the cores when they like."""
    for level in Budget._fields:
        settings.register_profile(
            level,
            deadline=None,
            max_examples=getattr(TABLE["law"], level),
            suppress_health_check=[HealthCheck.too_slow],
            derandomize=level != "proof",
            database=None,
        )
    settings.load_profile("gate")


def budget(row: str) -> int:
    """What the table says at this level."""
    return int(getattr(TABLE[row], settings.get_current_profile_name()))


def seeds(row: str) -> range:
    """As many as the table says: the first ones, or in `proof` those from one on that is drawn."""
    first = random.randrange(1 << 32) if settings.get_current_profile_name() == "proof" else 0
    return range(first, first + budget(row))
