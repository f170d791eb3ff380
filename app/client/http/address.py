"""Where a service is: what `--klamm` may say, and what is said of an address that can't be."""

import re

from app.formats.command_errors import UsageError

UNIX = "unix:"

_EXPECTED = "expected http://host:port, https://host:port or unix:/path"
_MAX_PORT = 65_535
_MAX_SOCKET_PATH_BYTES = 107
_SHOWN = 200
_SCHEMELESS = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?(?:/.*)?\Z", re.DOTALL)
_API = re.compile(r"/v1(?:/.*)?\Z", re.DOTALL)


def checked_url(text: str) -> str:
    """The address without a slash at its end, scheme and host in lower case. Raises UsageError for what is none.

    A path may stand there for a proxy that wants one, but none of the API's own.
    """
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "unix":
        return _checked_socket(rest)
    import httpx  # noqa: PLC0415 - takes long to load, and help needs none of it

    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        raise _no_address(text) from None
    if url.userinfo:
        # Not repeated, for it may be a password.
        raise UsageError("--klamm: an address holds no name or password; put a token into a file (--token-file)")
    if url.scheme not in ("http", "https") or not url.host:
        raise _no_address(text)
    if url.port is not None and not 0 < url.port <= _MAX_PORT:
        raise UsageError(f"--klamm: port {url.port} is none; write one from 1 to {_MAX_PORT}")
    if url.query or url.fragment or text.endswith(("?", "#")):
        raise UsageError("--klamm: an address has no `?` or `#`; leave them out")
    address = f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii').rstrip('/')}"
    without = _API.sub("", address)
    if without != address:
        raise UsageError(f"--klamm: the paths of the API are klamm's own to add; leave them out: {without}")
    return address


def _checked_socket(rest: str) -> str:
    # unix:///run/klamm.sock means the same to many tools.
    path = rest.removeprefix("//")
    if not path.startswith("/"):
        raise UsageError("--klamm: write the socket's whole path, such as unix:/run/klamm/klamm.sock")
    if len(path.encode(errors="surrogateescape")) > _MAX_SOCKET_PATH_BYTES:
        raise UsageError(f"--klamm: the path of a socket has {_MAX_SOCKET_PATH_BYTES} bytes at most; make it shorter")
    return UNIX + path


def _no_address(text: str) -> UsageError:
    if "@" in text:
        return UsageError(f"--klamm: {_EXPECTED}, and no name or password in it")
    if _SCHEMELESS.match(text) is not None:
        return UsageError(f"--klamm: `{text[:_SHOWN]}` lacks http:// or https://; write http://{text[:_SHOWN]}")
    return UsageError(f"--klamm: {_EXPECTED}, not `{text[:_SHOWN]}`")
