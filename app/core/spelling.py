"""Texts for people: the known word that a misspelt one probably meant, and texts that are safe on a terminal."""

import difflib
from collections.abc import Iterable

from app.core.readable import readable, visible

_LEAST_LIKENESS = 0.6
_LONGEST = 200
"""Nobody misspells a longer word, and comparing it would take long."""


def nearest(word: str, known: Iterable[str], *, likeness: float = _LEAST_LIKENESS) -> str | None:
    """The known word spelt most like this one, whatever the case; None if none reaches the `likeness` (0 to 1)."""
    if len(word) > _LONGEST:
        return None
    by_lower = {each.lower(): each for each in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=likeness)
    return by_lower[found[0]] if found else None


def printable(text: str, most: int) -> str:
    r"""At most `most` characters of the text; those that can't be seen come as escapes (`\n`, `\x1b`)."""
    return visible(text if len(text) <= most else f"{text[:most]}...")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question to append to a refusal; empty if no known word is similar."""
    meant = nearest(word, known)
    return "" if meant is None else f"; did you mean {readable(meant)}?"
