"""Commands that are printed for people to type: one quoting for all of them, which every POSIX shell reads alike."""

import shlex
from collections.abc import Iterable


def shell_line(words: Iterable[str]) -> str | None:
    """The words as one line for sh, dash, bash, ksh and zsh; None if it can't be shown safely.

    A POSIX shell has no way to write a character that can't be printed but the character itself, and a terminal would
    obey it, or break the line there.
    """
    line = " ".join(map(_quoted, words))
    return line if line.isprintable() else None


def _quoted(word: str) -> str:
    quoted = shlex.quote(word)
    # zsh looks up commands for words such as `=ls`.
    return f"'{word}'" if quoted == word and word.startswith("=") else quoted
