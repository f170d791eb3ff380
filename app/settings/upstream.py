"""What a follower is told: whom it follows, and what does not go with that."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from app.core.kafka.hosts import is_loopback

_MOST_URLS = 16
_EXPECTED = "expected https://host:port, such as https://klamm.internal"
_IN_THE_DATABASE = (
    "database_url",
    "data_dir",
    "postgres_bin",
    "cluster_id",
    "feed_retention_ms",
    "feed_retention_records",
    "feed_retention_exporters_ms",
)


def upstream_urls(value: object) -> tuple[str, ...]:
    """Of a text with commas between, or a list of texts. Raises ValueError."""
    given = re.split(r"[,\s]+", value.strip()) if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise ValueError(f"{_EXPECTED}, or a list of them")
    urls = tuple(_checked(each) for each in given if each)
    if not urls:
        raise ValueError("is empty; leave it out for a replica with a database")
    if len(urls) > _MOST_URLS:
        raise ValueError(f"holds {len(urls)} addresses, but may hold at most {_MOST_URLS}")
    if len(set(urls)) < len(urls):
        raise ValueError("names an address twice; keep one of them")
    return urls


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"`{url[:200]}` is not an address; {_EXPECTED}") from None
    if parts.username is not None or parts.password is not None or "@" in url:
        # Not repeated, for it may be a password.
        raise ValueError("an address must not contain a name or password; put a token into `upstream.token.file`")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"`{url[:200]}` is not an address; {_EXPECTED}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"`{url[:200]}` has something after the host; {_EXPECTED}")
    return f"{parts.scheme}://{parts.netloc.lower()}"


def unprotected(urls: Sequence[str]) -> list[str]:
    """Those over which tokens and ACLs can be read on the way."""
    return [url for url in urls if url.startswith("http:") and not is_loopback(urlsplit(url).hostname or "")]


def check_upstream(given: Mapping[str, object]) -> None:
    """`given` are the fields that somebody has set. Raises ValueError."""
    if "upstream_urls" not in given:
        lonely = [name for name in given if name.startswith("upstream_")]
        if lonely:
            raise ValueError(f"`{lonely[0].replace('_', '.')}` is for a follower; set `upstream.urls`, or leave it out")
        return
    for name in _IN_THE_DATABASE:
        if given.get(name) is not None:
            raise ValueError(
                f"`upstream.urls` and `{name.replace('_', '.')}` don't go together: a follower has no database, and "
                "the service that it follows looks after its own; leave one of them out"
            )
    if (given.get("upstream_certificate") is None) != (given.get("upstream_key") is None):
        raise ValueError("`upstream.certificate` and `upstream.key` go together; give both or neither")
