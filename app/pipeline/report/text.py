"""Texts on a page: whatever names in them hold, they stay text, and characters that can't be seen are shown."""

import html
import json
from collections.abc import Sequence
from itertools import chain, count

from app.core.readable import visible


def shortened(text: str, longest: int = 40) -> str:
    text = visible(text)
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def plain_label(text: str, longest: int = 32) -> str:
    """The text for plotly, which reads some HTML in labels: tags and entities in names must stay text."""
    return html.escape(shortened(text, longest), quote=False)


def distinct_labels(texts: Sequence[str], longest: int = 32) -> list[str]:
    """A label for each text, no two of them alike: plotly would draw equal labels as one."""
    labels: list[str] = []
    for text in texts:
        plain = plain_label(text, longest)
        candidates = chain([plain], (f"{plain} ({number})" for number in count(2)))
        labels.append(next(each for each in candidates if each not in labels))
    return labels


def script_json(value: object) -> str:
    """The value as JSON that may be inside a script element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
