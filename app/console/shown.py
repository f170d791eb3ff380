"""How names, ACLs and times are written on pages."""

import shlex
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from urllib.parse import urlencode

from markupsafe import Markup

from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL
from app.core.readable import readable
from app.core.spelling import printable

_MOST = 120
_MOST_SAID = 4_000
_LONG = 40
"""Longer names may break anywhere, so that they push nothing off the screen."""
MAX_ADDRESS = 6_000
"""Longer addresses don't fit the head of a request once a browser has written them."""
_ROUNDING = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def name(text: str, most: int = _MOST) -> Markup:
    """A name that somebody chose, as `readable` writes it, isolated from the text around it."""
    return _isolated(readable(text, most), text, most)


def remark(text: str, most: int = _MOST) -> Markup:
    """A comment, isolated in the same way."""
    return _isolated(printable(text, most), text, most)


def _isolated(shown_text: str, text: str, most: int) -> Markup:
    begins = Markup('<bdi class="long">') if len(text) > _LONG else Markup("<bdi>")
    shown = begins + shown_text + Markup("</bdi>")
    if len(text) > most:
        shown += Markup(" <small>({:,} characters)</small>").format(len(text))
    return shown


def whole(text: str) -> Markup:
    """The same at full length, for where somebody agrees to it."""
    return name(text, len(text))


def type_word(resource_type: str) -> str:
    return resource_type.lower().replace("_", "-")


def resource_link(resource_type: str, resource_name: str) -> Markup:
    kind = Markup('<span class="kind">{}</span> ').format(type_word(resource_type))
    return kind + _linked("/console/resource", {"type": resource_type, "name": resource_name}, name(resource_name))


def principal_link(principal: str) -> Markup:
    return _linked("/console/principal", {"principal": principal}, name(principal))


def _linked(path: str, parameters: Mapping[str, str], shown: Markup) -> Markup:
    address = f"{path}?{urlencode(parameters)}"
    return shown if len(address) > MAX_ADDRESS else Markup('<a href="{}">{}</a>').format(address, shown)


def pattern(acl: Mapping[str, str]) -> Markup:
    """`topic orders` with what the pattern type adds to it."""
    resource_type, resource_name = acl["resource_type"], acl["resource_name"]
    kind = Markup('<span class="kind">{}</span> ').format(type_word(resource_type))
    if acl["pattern_type"] == "PREFIXED":
        address = {"resource_type": resource_type, "resource_name": resource_name, "pattern_type": "PREFIXED"}
        star = Markup('<span class="star" title="all names with this prefix">*</span>')
        return kind + _linked("/console/acls", address, name(resource_name)) + star
    if resource_name == WILDCARD:
        return Markup("{}<em>any</em>").format(kind)
    return resource_link(resource_type, resource_name)


def who(principal: str) -> Markup:
    return Markup("<em>everybody</em>") if principal == WILDCARD_PRINCIPAL else principal_link(principal)


def host(text: str) -> Markup:
    return Markup("<em>any</em>") if text == WILDCARD else name(text)


def when(text: str | datetime | None) -> Markup:
    """A time as `2026-11-23 18:00 UTC`."""
    if text is None:
        return Markup("")
    moment = text if isinstance(text, datetime) else datetime.fromisoformat(text)
    shown = moment.isoformat(sep=" ", timespec="minutes").partition("+")[0]
    return Markup('<time datetime="{}">{} UTC</time>').format(moment.isoformat(), shown)


def span(seconds: float) -> str:
    """`3 min`, `2 d`: in its largest unit."""
    for size, unit in _ROUNDING:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0) * 1000:.0f} ms"


def number(value: float) -> str:
    return f"{value:,.0f}"


def sentence(text: str) -> Markup:
    """A refusal's text, which has no capital and no full stop, as a sentence."""
    shown = printable(text, _MOST_SAID)
    return prose(f"{shown[:1].upper()}{shown[1:]}{'' if shown.endswith(('.', '?')) else '.'}")


def prose(text: str) -> Markup:
    """Text in which backticks enclose names."""
    parts = printable(text, _MOST_SAID).split("`")
    shown = Markup("")
    for at, part in enumerate(parts):
        is_name = at % 2 == 1 and at < len(parts) - 1
        shown += Markup("<code>{}</code>").format(part) if is_name else Markup("{}").format(part)
    return shown


def query(parameters: Mapping[str, object]) -> str:
    """A query string of the parameters that are not empty."""
    return urlencode({key: value for key, value in parameters.items() if value not in (None, "")})


def address_of(path: str, parameters: Mapping[str, object]) -> str | None:
    """None if it is too long for the head of a request."""
    # Longer texts are not even encoded, which takes 0.1 s for a million characters.
    if sum(len(str(value)) for value in parameters.values()) > MAX_ADDRESS:
        return None
    address = f"{path}?{query(parameters)}"
    return address if len(address) <= MAX_ADDRESS else None


FILTERS: Mapping[str, Callable[..., object]] = MappingProxyType(
    {
        "name": name,
        "whole": whole,
        "readable": readable,
        "remark": remark,
        "shell_word": shlex.quote,
        "spelled": printable,
        "type_word": type_word,
        "resource_link": resource_link,
        "principal_link": principal_link,
        "pattern": pattern,
        "who": who,
        "host": host,
        "when": when,
        "span": span,
        "number": number,
        "prose": prose,
        "sentence": sentence,
        "query": query,
    }
)
