"""The target of a request, as routing sees it, before there is a scope."""

from urllib.parse import unquote_to_bytes


def path_of(target: bytes) -> bytes:
    """The decoded path in a request target (RFC 9112, 3.2), which need be neither whole nor valid."""
    path = target.partition(b"?")[0].partition(b"#")[0]
    if not path.startswith(b"/"):
        # The absolute form; all else that begins otherwise has no path.
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return unquote_to_bytes(path) if b"%" in path else path
