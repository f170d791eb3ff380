"""The target of a request, as routing sees it, before there is a scope."""

import posixpath
import re
from urllib.parse import unquote_to_bytes

from app.rest.bodies.opa import OPA_BELOW, OPA_PATH

AUTHORIZE_TARGET = b"/v1/authorize"

_MOST_DECODED = 3
"""A proxy or two may have encoded a path again; a path of nothing but `%25` is not worth more rounds."""
_OPA_BELOW = f"{OPA_BELOW}/".encode()
_SLASHES = re.compile(rb"/{2,}")

is_opa_question = re.compile(rb"%b(?:/[\w-]+)?" % re.escape(OPA_PATH).encode()).fullmatch
"""Whether a target, as it came, is OPA's endpoint and can be read in one way only."""

_is_near_opa = re.compile(rb"/v[01]/data(?![\w-])", re.IGNORECASE).match


def path_of(target: bytes) -> bytes:
    """The decoded path in a request target (RFC 9112, 3.2), which need be neither whole nor valid."""
    path = target.partition(b"?")[0].partition(b"#")[0]
    if not path.startswith(b"/"):
        # The absolute form; any other target that does not begin with a slash has no path.
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return unquote_to_bytes(path) if b"%" in path else path


def target_in(segment: bytes) -> bytes:
    """The target in what may be the beginning of a request that the parser refused; empty if there is none."""
    parts = segment.partition(b"\n")[0].split(maxsplit=2)
    return parts[1] if len(parts) > 1 else b""


def asks_opa(path: bytes) -> bool:
    """Whether a client that asks for this decoded path may take the answer for OPA's, so that no refusal may be JSON.

    That is all below `/v1/data` and, for OPA's older API, `/v0/data`: also with double slashes, dots, parts that are
    encoded twice, or capitals. No path of ours looks like that.
    """
    if path.startswith(_OPA_BELOW):
        return True
    for _ in range(_MOST_DECODED):
        if b"%" not in path:
            break
        path = unquote_to_bytes(path)
    path = _SLASHES.sub(b"/", path)
    return bool(_is_near_opa(path) or (b"/." in path and _is_near_opa(posixpath.normpath(path))))
