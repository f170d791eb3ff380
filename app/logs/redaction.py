"""Keeps secrets out of the service's log: known ones, and whatever has the shape of one.

Every step is linear in the text's length, so that a text of megabytes can't hold up the event loop.
"""

import json
import re
from urllib.parse import quote, unquote

from app.formats.database_url import DatabaseUrl

MASK = "***"
LONGEST_TEXT = 64 * 1024
"""In characters."""

_MARGIN = 32 * 1024
_SHORTEST_SECRET = 4
_SHORTEST_JWT_HEADER = len("eyJhbGciOiJub25lIn0")

# Possessive quantifiers, and nothing that follows a run can be part of it: no character is read twice.
_AFTER_ITS_NAME = re.compile(
    r"(?i:(authorization|password|passwd|passphrase|secret|api[-_]?key)"
    r"(\\?[\"']?\s{0,8}[:=]\s{0,8}|\\?[\"']\s{0,8},\s{0,8})(?:b?\\?([\"']))?)"
)
_BEARER = re.compile(r"(?i:\bbearer)(?:[\s:=+]|%20|\\t)++[\"']?([^\s\"',;)\]}]++)")
_OWN_TOKEN = re.compile(r"klamm_[\w-]{16,}+", re.ASCII)
"""What `klamm token` makes."""
_HASH = re.compile(r"(?i:sha256:[0-9a-f]{16,}+)")
_RUN = re.compile(r"\S++")
_DOTTED = re.compile(r"[\w.-]++", re.ASCII)
_NAMES = re.compile(r"(?i:authorization|password|passwd|passphrase|secret|credential|api[-_.]?key)")


class _Concealed:
    """The secrets of this process in every spelling, longest first."""

    spellings: tuple[str, ...] = ()

    def add(self, secret: str) -> None:
        spellings = {
            secret,
            quote(secret, safe=""),
            quote(secret),
            unquote(secret),
            repr(secret)[1:-1],
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
        }
        kept = spellings.union(self.spellings)
        # INVARIANT: replaced as a whole, as another thread may be reading.
        self.spellings = tuple(sorted(kept, key=lambda each: (-len(each), each)))


_concealed = _Concealed()


def conceal(secret: str) -> None:
    """Keeps this text, and its URL-quoted and escaped forms, out of all lines from now on.

    Raises ValueError for less than 4 characters, which would mask half of every line.
    """
    if len(secret) < _SHORTEST_SECRET:
        raise ValueError(f"a secret of fewer than {_SHORTEST_SECRET} characters can't be kept out of a log")
    _concealed.add(secret)


def conceal_url(url: DatabaseUrl) -> None:
    """Keeps this URL and its passwords out of all lines; passwords of less than 4 characters only within it."""
    conceal(url.dsn)
    for password in (url.password, *(value for name, value in url.options.items() if _NAMES.search(name))):
        if len(password) >= _SHORTEST_SECRET:
            conceal(password)


def reveal_all() -> None:
    _concealed.spellings = ()


def is_secret_by_name(field: str) -> bool:
    return _NAMES.search(field) is not None


def redacted(text: str) -> str:
    """The text without secrets, cut to 64 Ki characters."""
    if len(text) <= LONGEST_TEXT:
        return _masked(text)
    # INVARIANT: a secret that the cut makes unrecognisable lies in the margin, which is dropped.
    kept = _masked(text[: LONGEST_TEXT + _MARGIN])[:-_MARGIN]
    return f"{kept[:LONGEST_TEXT]}... ({len(text)} characters in all)"


def _masked(text: str) -> str:
    for secret in _concealed.spellings:
        text = text.replace(secret, MASK)
    folded = text.lower()
    if "://" in text and "@" in text:
        text = _RUN.sub(_without_password, text)
    if "eyJ" in text:
        text = _DOTTED.sub(_without_jwt, text)
    if "bearer" in folded:
        text = _BEARER.sub(lambda found: found[0][: found.start(1) - found.start()] + MASK, text)
    if "klamm_" in text:
        text = _OWN_TOKEN.sub(MASK, text)
    if "sha256:" in folded:
        text = _HASH.sub(f"sha256:{MASK}", text)
    return _without_named(text)


def _without_password(run: re.Match[str]) -> str:
    """`scheme://user:***@host`, up to the last @: a password that was not quoted may hold any character."""
    text = run[0]
    begins = text.find("://")
    ends = text.rfind("@")
    if begins < 0 or ends < begins:
        return text
    colon = text.find(":", begins + 3, ends)
    return text if colon < 0 else f"{text[: colon + 1]}{MASK}{text[ends:]}"


def _without_jwt(run: re.Match[str]) -> str:
    """A JWT has a header and two more parts, the last of which may be empty."""
    parts = run[0].split(".")
    for at, part in enumerate(parts[:-2]):
        begins = part.find("eyJ")
        if 0 <= begins <= len(part) - _SHORTEST_JWT_HEADER:
            return ".".join([*parts[:at], part[:begins] + MASK])
    return run[0]


def _without_named(text: str) -> str:
    parts: list[str] = []
    at = 0
    while (found := _AFTER_ITS_NAME.search(text, at)) is not None:
        parts.append(text[at : found.end()])
        at = _end_of_value(text, found.end(), found[1].lower(), found[3] or "")
        parts.append(MASK)
    return "".join([*parts, text[at:]]) if parts else text


def _end_of_value(text: str, begins: int, name: str, quoted_by: str) -> int:
    # A header's value may have several words; any other unquoted value is one.
    stops = re.escape(quoted_by) + r"\n" if quoted_by else r"\n\r\"'" if name == "authorization" else r"\s,;&\"'"
    found = re.compile(f"[{stops}]").search(text, begins)
    return len(text) if found is None else found.start()
