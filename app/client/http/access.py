"""Which service a command calls, for which principal and with which credentials: flags and a file of properties."""

import argparse
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path

from app.client.http.config_files import read_properties
from app.client.words import utf_8
from app.core.readable import backticked, readable
from app.formats.command_errors import UsageError

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_TIMEOUT_S = 30.0
MAX_TIMEOUT_S = 3_600.0
LOOPBACK = "127.0.0.1"
UNIX = "unix:"

_EXPECTED = "expected http://host:port, https://host:port or unix:/path"
_MAX_PORT = 65_535
_MAX_SOCKET_PATH_BYTES = 107
_SHOWN = 200
_SCHEMELESS = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?(?:/.*)?\Z", re.DOTALL)
_API = re.compile(r"/v1(?:/.*)?\Z", re.DOTALL)

_PROPERTIES = (
    "principal",
    "token",
    "token.file",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "request.timeout.ms",
)


@dataclass(frozen=True, slots=True)
class Access:
    url: str
    """http://host:port, https://host:port or unix:/path."""
    principal: str
    client_address: str = LOOPBACK
    """The client's own address."""
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    named_by: str = "--token-file"
    """What named the token's file, for errors."""
    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    """For one call, repeats included."""

    @property
    def socket_path(self) -> str | None:
        return self.url.removeprefix(UNIX) if self.url.startswith(UNIX) else None


@dataclass(frozen=True, slots=True)
class AccessFlags:
    """They override the file of properties."""

    url: str | None = None
    principal: str | None = None
    command_config: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    timeout: str | None = None


OPTIONS = (
    (
        "url",
        "klamm",
        "URL",
        f"service: http://host:port, https://host:port or unix:/path/to/socket ({DEFAULT_URL})",
    ),
    (
        "principal",
        "as",
        "PRINCIPAL",
        "principal to make the request as, such as User:admin; its ACLs decide whether it may",
    ),
    ("command_config", "command-config", "FILE", f"file of key=value lines; keys: {', '.join(_PROPERTIES)}"),
    ("token_file", "token-file", "FILE", "file that holds the caller's token and nothing else"),
    ("ca_file", "ca", "FILE", "PEM file of the CAs to trust, instead of the system's"),
    (
        "timeout",
        "timeout",
        "SECONDS",
        f"timeout of one call to the service, retries included ({DEFAULT_TIMEOUT_S:g})",
    ),
)
"""The options of every command that calls a service: field of AccessFlags, name, argument and help."""


def add_access_arguments(parser: argparse.ArgumentParser, *, without: str = DEFAULT_URL) -> None:
    """`without` says what happens without --klamm."""
    group = parser.add_argument_group("service")
    for field_name, option, argument, text in OPTIONS:
        group.add_argument(
            f"--{option}",
            dest=f"access_{field_name}",
            metavar=argument,
            help=text.replace(f"({DEFAULT_URL})", f"({without})"),
        )


def access_flags(arguments: argparse.Namespace) -> AccessFlags:
    return AccessFlags(**{field_name: getattr(arguments, f"access_{field_name}") for field_name, *_ in OPTIONS})


def access_of(arguments: argparse.Namespace) -> Access:
    return make_access(access_flags(arguments))


def make_access(flags: AccessFlags) -> Access:
    properties = {} if flags.command_config is None else read_properties(Path(flags.command_config), _PROPERTIES)
    url = checked_url(flags.url or DEFAULT_URL)
    principal = _checked_principal(flags.principal, properties.get("principal"))
    timeout_s = _timeout_s(flags.timeout, properties.get("request.timeout.ms"))
    if flags.ca_file is not None and not url.startswith("https://"):
        raise UsageError(f"--ca has no effect on `{url}`; leave it out, or use https://")
    by_flag = flags.token_file is not None
    if not by_flag and "token" in properties and "token.file" in properties:
        raise UsageError(
            f"--command-config: `token` and `token.file` are both set in `{flags.command_config}`; keep one of them"
        )
    return Access(
        url=url,
        principal=principal,
        client_address=_own_address(url),
        token=None if by_flag else properties.get("token"),
        token_file=Path(flags.token_file) if flags.token_file is not None else _path(properties.get("token.file")),
        named_by="--token-file" if by_flag else "--command-config: `token.file`",
        ca_file=_path(flags.ca_file or properties.get("ssl.ca.location")),
        certificate=_path(properties.get("ssl.certificate.location")),
        key=_path(properties.get("ssl.key.location")),
        timeout_s=timeout_s,
    )


def _checked_principal(flag: str | None, from_file: str | None) -> str:
    where = "--as" if flag is not None else "--command-config: `principal`"
    principal = flag if flag is not None else from_file
    if principal is None:
        raise UsageError(
            "no principal is given; name the one to make the request as with --as, such as --as User:admin, or as "
            "`principal` in a file (--command-config)"
        )
    if ":" not in principal:
        raise UsageError(
            f"{where}: {backticked(principal, 200)} has no type; write for example {readable(f'User:{principal}', 200)}"
        )
    return utf_8(principal)


def _timeout_s(flag: str | None, from_file_ms: str | None) -> float:
    where, text, units_a_second = "--timeout", flag, 1.0
    if text is None:
        where, text, units_a_second = "--command-config: `request.timeout.ms`", from_file_ms, 1_000.0
    if text is None:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = float(text) / units_a_second
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= MAX_TIMEOUT_S:
        highest = MAX_TIMEOUT_S * units_a_second
        raise UsageError(f"{where}: expected a number above 0 and up to {highest:g}, not `{text[:50]}`")
    return seconds


def _path(text: str | None) -> Path | None:
    return None if not text else Path(text)


def _own_address(service: str) -> str:
    """The address that the service would see, for ACLs with hosts. Nothing is sent."""
    if service.startswith(UNIX):
        return LOOPBACK
    import httpx  # noqa: PLC0415 - takes long to load, and help needs none of it

    url = httpx.URL(service)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(url.host, url.port or 80, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as towards:
            towards.connect(address)
            own: str = towards.getsockname()[0]
    except (OSError, UnicodeError):
        # The call itself will say why the service can't be reached.
        return LOOPBACK
    return own.partition("%")[0]


def checked_url(text: str) -> str:
    """The URL without a slash at its end, with scheme and host in lower case. Raises UsageError.

    It may have a path for a proxy that needs one, but none of the API's own.
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
        # Not repeated, as it may be a password.
        raise UsageError("--klamm: the URL must not have a user or password; put a token into a file (--token-file)")
    if url.scheme not in ("http", "https") or not url.host:
        raise _no_address(text)
    if url.port is not None and not 0 < url.port <= _MAX_PORT:
        raise UsageError(f"--klamm: {url.port} is not a port; use one from 1 to {_MAX_PORT}")
    if url.query or url.fragment or text.endswith(("?", "#")):
        raise UsageError("--klamm: the URL must not have `?` or `#`; leave them out")
    address = f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii').rstrip('/')}"
    without = _API.sub("", address)
    if without != address:
        raise UsageError(f"--klamm: klamm adds the API's paths itself; leave them out: {without}")
    return address


def _checked_socket(rest: str) -> str:
    # unix:///run/klamm.sock means the same to many tools.
    path = rest.removeprefix("//")
    if not path.startswith("/"):
        raise UsageError("--klamm: write the socket's whole path, such as unix:/run/klamm/klamm.sock")
    if len(path.encode(errors="surrogateescape")) > _MAX_SOCKET_PATH_BYTES:
        raise UsageError(
            f"--klamm: the path of a socket may have at most {_MAX_SOCKET_PATH_BYTES} bytes; make it shorter"
        )
    return UNIX + path


def _no_address(text: str) -> UsageError:
    if "@" in text:
        return UsageError(f"--klamm: {_EXPECTED}, without a user or password")
    if _SCHEMELESS.match(text) is not None:
        return UsageError(f"--klamm: `{text[:_SHOWN]}` lacks http:// or https://; write http://{text[:_SHOWN]}")
    return UsageError(f"--klamm: {_EXPECTED}, not `{text[:_SHOWN]}`")
