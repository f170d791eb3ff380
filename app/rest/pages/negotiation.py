"""Which of two forms does this Accept header want (RFC 9110, 12.5.1)?"""

import re
from typing import NamedTuple

_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)").fullmatch
_MAX_LETTERS = 1_000
"""Several times what browsers send. A head may be sixteen times as long, and each comma in it is work."""

_HTML, _JSON = "text/html", "application/json"


def wants_html(accept: str) -> bool:
    """Whether HTML is wanted more than JSON. Who wants both alike gets JSON, as programs send `*/*`."""
    if len(accept) > _MAX_LETTERS:
        return False
    ranges = [_range(each) for each in (accept or "*/*").split(",")]
    html = _wanted(ranges, _HTML)
    return html.quality > 0 and html > _wanted(ranges, _JSON)


def _range(text: str) -> tuple[str, float]:
    kind, *parameters = (part.strip().lower() for part in text.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return kind, float(value) if _QUALITY(value.strip()) else 0.0
    return kind, 1.0


class _Wanted(NamedTuple):
    quality: float
    rank: int
    """How plainly the type was named."""


def _wanted(ranges: list[tuple[str, float]], kind: str) -> _Wanted:
    """The most specific range decides."""
    for rank, name in ((2, kind), (1, kind.partition("/")[0] + "/*"), (0, "*/*")):
        qualities = [quality for each, quality in ranges if each == name]
        if qualities:
            return _Wanted(max(qualities), rank)
    return _Wanted(0.0, 0)
