"""Texts in quotes, as JSON, YAML and shells have them: on one line, and harmless to a terminal."""

import json
import shlex
from collections.abc import Iterable

from app.core.readable import visible

_BMP = 0xFFFF


def json_quoted(text: str) -> str:
    """The text as a JSON string; astral characters that no screen shows come as a pair of surrogates."""
    return _quoted(text, pairs=True)


def wide_quoted(text: str) -> str:
    r"""The text as a YAML string; astral characters may come as `\UXXXXXXXX`."""
    return _quoted(text, pairs=False)


def _quoted(text: str, *, pairs: bool) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join([_character(each, pairs=pairs) for each in text])}"'


def _character(each: str, *, pairs: bool) -> str:
    if each in '"\\':
        return f"\\{each}"
    if each.isprintable():
        return each
    code = ord(each)
    if code <= _BMP:
        return f"\\u{code:04x}"
    return json.dumps(each)[1:-1] if pairs else f"\\U{code:08x}"


def shell_line(words: Iterable[str]) -> str | None:
    """The words as one line for sh, dash, bash, ksh and zsh; None if it can't be shown safely.

    A POSIX shell has no way to write a character that can't be seen but the character itself, and a terminal would
    obey it, or break the line there.
    """
    line = " ".join(map(_shell_word, words))
    return line if visible(line) == line else None


def _shell_word(word: str) -> str:
    quoted = shlex.quote(word)
    # zsh looks up commands for words such as `=ls`.
    return f"'{word}'" if quoted == word and word.startswith("=") else quoted
