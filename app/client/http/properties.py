"""Files of `key=value` lines, as Java's tools have them (java.util.Properties), but in UTF-8."""

import re
from collections.abc import Iterator

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*")
_LINE_END = re.compile(r"\r\n|\r|\n")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, key and value of each; comments begin with `#` or `!`, a backslash at the end carries on a line."""
    for number, line in _lines(text):
        match = _KEY.match(line)
        key, value = (line, "") if match is None else (match[1], line[match.end() :])
        yield number, _plain(key), _plain(value).strip()


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines as they are meant, each with the number of its first line in the file."""
    begun, began_at = "", 0
    for number, line in enumerate(_LINE_END.split(text), start=1):
        if not begun:
            began_at = number
            if line.lstrip()[:1] in ("", "#", "!"):
                continue
        whole = begun + line.lstrip()
        if _carries_on(whole):
            begun = whole[:-1]
            continue
        begun = ""
        yield began_at, whole
    if begun:
        yield began_at, begun


def _carries_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _plain(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _LETTERS.get(escaped, escaped)
