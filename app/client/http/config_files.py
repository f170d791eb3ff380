"""Files that a command reads to reach a service: properties (`key=value`)."""

import re
from collections.abc import Iterator
from pathlib import Path

from app.formats.command_errors import UsageError
from app.formats.secret_files import refuse_if_open

_MAX_FILE_BYTES = 64 * 1024
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*")
_LINE_END = re.compile(r"\r\n|\r|\n")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path, known: tuple[str, ...]) -> dict[str, str]:
    """Raises UsageError, also if others can read a token in the file."""
    properties: dict[str, str] = {}
    for number, key, value in parse_properties(_read_config(path)):
        where = f"--command-config: `{path}` line {number}"
        if key not in known:
            # The line may be a token and nothing else, so it is not shown.
            raise UsageError(f"{where}: unknown property; known are {', '.join(known)}")
        if key in properties:
            raise UsageError(f"{where}: `{key}` is set twice; keep one of them")
        properties[key] = value
    return properties


def _read_config(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
            if len(raw) > _MAX_FILE_BYTES:
                raise UsageError(
                    f"--command-config: `{path}` is longer than {_MAX_FILE_BYTES} bytes; is it the right file?"
                )
            text = raw.decode()
            if any(key == "token" for _, key, _ in parse_properties(text)):
                refuse_if_open(file, path, "--command-config", "the token")
    except OSError as error:
        raise UsageError(f"--command-config: can't read `{path}` ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UsageError(f"--command-config: `{path}` is not UTF-8; save it as UTF-8") from None
    return text


def parse_properties(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, key and value, as Java reads them, but from UTF-8."""
    for number, line in _logical_lines(text):
        match = _KEY.match(line)
        key, value = (line, "") if match is None else (match[1], line[match.end() :])
        yield number, _plain(key), _plain(value).strip()


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """A backslash at its end continues a line; its number is that of its first line in the file."""
    begun, began_at = "", 0
    for number, line in enumerate(_LINE_END.split(text), start=1):
        if not begun:
            began_at = number
            if line.lstrip()[:1] in ("", "#", "!"):
                continue
        whole = begun + line.lstrip()
        if (len(whole) - len(whole.rstrip("\\"))) % 2 == 1:
            begun = whole[:-1]
            continue
        begun = ""
        yield began_at, whole
    if begun:
        yield began_at, begun


def _plain(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _LETTERS.get(escaped, escaped)
