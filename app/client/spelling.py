"""What was probably meant by a word that there is not."""

import difflib
from collections.abc import Iterable

_LEAST_LIKENESS = 0.6


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is spelt most like this one; None if none is."""
    by_lower = {each.lower(): each for each in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=_LEAST_LIKENESS)
    return by_lower[found[0]] if found else None
