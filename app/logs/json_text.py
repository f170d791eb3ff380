"""JSON strings for logs: what a screen would not show as itself is escaped, and nothing else."""

import re
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Literal

LogFormat = Literal["JSON", "TEXT"]

_LONGEST_ESCAPE = 6
_SUSPECT = re.compile("[^ -~]+")
_BMP = 0xFFFF
_AROUND_GROUPS, _BETWEEN_GROUPS = 12, 3


def json_string(text: str) -> str:
    r"""The text as a JSON string on one line, from which a reader gets it back character by character.

    Control characters, line separators, marks that reorder text or have no width and lone surrogates become `\uXXXX`;
    letters of all languages stay.
    """
    encoded = encode_basestring(text)
    return encoded if encoded.isprintable() else _SUSPECT.sub(_escaped_run, encoded)


def json_content(text: str) -> str:
    return text if text.isprintable() and '"' not in text and "\\" not in text else json_string(text)[1:-1]


def written_bytes(text: str) -> int:
    """Bytes that the text takes in a log: exact if nothing is escaped, else an upper bound."""
    # The event loop calls this, so it costs next to nothing.
    if text.isprintable() and '"' not in text and "\\" not in text:
        return len(text) if text.isascii() else len(text.encode())
    return _LONGEST_ESCAPE * len(text.encode("utf-8", "surrogatepass"))


def groups_content(groups: Sequence[str]) -> str:
    """`,"groups":["eng-data","pii"]`; empty if there are none."""
    names = ",".join(f'"{json_content(each)}"' for each in groups)
    return f',"groups":[{names}]' if groups else ""


def groups_bytes(groups: Sequence[str]) -> int:
    """The most bytes that these take in a log."""
    return _AROUND_GROUPS + sum(map(written_bytes, groups)) + _BETWEEN_GROUPS * len(groups) if groups else 0


def _escaped_run(run: re.Match[str]) -> str:
    return "".join([each if each.isprintable() else _escaped(ord(each)) for each in run[0]])


def _escaped(code: int) -> str:
    if code <= _BMP:
        return f"\\u{code:04x}"
    code -= _BMP + 1
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
