"""The caller where no callers are configured: anybody on this machine, but no web page of another site.

A browser sends to loopback whatever a page of any site asks for. Such a page shows by `Origin` and `Sec-Fetch-Site`; if
its site has bound its own name to loopback (DNS rebinding), neither need be there, but `Host` has that name.
"""

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from app.core.kafka.errors import ClusterAuthorizationException
from app.rest.callers.roles import Caller, Role

_MAX_REMEMBERED = 64
_MAX_SHOWN = 100
_MAX_HOST = 300
"""A name of the DNS has up to 253 bytes."""
_OWN_SITES = (b"same-origin", b"none")
_HOST_AND_PORT = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::[0-9]*)?").fullmatch
_WAY_OUT = "configure callers (docs/callers.md)"

# INVARIANT: nobody else makes a caller of this role, so no request without credentials gets past the checks.
_ANYBODY = Caller("anybody", Role.OPEN)


class OpenAccess:
    def __init__(self, *, on_unix_socket: bool) -> None:
        """Browsers can't connect to a Unix socket; a proxy that does may send any host's name."""
        self._on_unix_socket = on_unix_socket
        self._remembered: dict[bytes | None, Caller] = {}
        """The caller, by values of `Host` that are answered: a look-up costs a tenth of reading one."""

    def known(self, fields: Mapping[bytes, bytes]) -> Caller | None:
        """The caller of a request that no page of a browser sends; None if it takes `identified` to tell."""
        if b"origin" in fields or b"sec-fetch-site" in fields:
            return None
        host = fields.get(b"host")
        return self._remembered.get(host) or self._caller_under(host)

    def identified(self, headers: Sequence[tuple[bytes, bytes]]) -> Caller:
        """Raises ClusterAuthorizationException for what a web page of another site may have sent."""
        hosts = _values(headers, b"host")
        host = hosts[0] if len(hosts) == 1 else b""
        if not self._on_unix_socket:
            if not is_local(host):
                raise _host_refusal(hosts)
            if not all(site in _OWN_SITES for site in _values(headers, b"sec-fetch-site")):
                raise ClusterAuthorizationException(
                    "the header `Sec-Fetch-Site` says that a web page of another site leads here, which is refused "
                    f"because no callers are configured; {_WAY_OUT}, or enter the address in the browser yourself"
                )
        if not all(_is_of(origin, host) for origin in _values(headers, b"origin")):
            raise ClusterAuthorizationException(
                "the header `Origin` says that a web page of another site sends this, which is refused because no "
                f"callers are configured; {_WAY_OUT}"
            )
        return _ANYBODY

    def _caller_under(self, host: bytes | None) -> Caller | None:
        if not (self._on_unix_socket or is_local(host or b"")):
            return None
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[host] = _ANYBODY
        return _ANYBODY


def is_local(host: bytes) -> bool:
    """Whether the value of a `Host` header is `localhost`, a name below it, or an IP address: no other site's name."""
    found = _HOST_AND_PORT(host.decode("latin-1")) if len(host) <= _MAX_HOST else None
    if found is None:
        return False
    literal, name = found.groups()
    if literal is None and (name.lower() == "localhost" or name.lower().endswith(".localhost")):
        return True
    try:
        # INVARIANT: other spellings of an address (`127.1`, `0x7f.1`, `2130706433`) are names, which DNS might resolve.
        address = ip_address(name if literal is None else literal)
    except ValueError:
        return False
    return (address.version == 4) == (literal is None)  # noqa: PLR2004 - IPv6 alone has brackets


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for each, value in headers if each == name]


def _is_of(origin: bytes, host: bytes) -> bool:
    """Whether the origin is the service's own, whose pages are the console and the reference."""
    return bool(host) and origin.partition(b"://")[2] == host


def _host_refusal(hosts: Sequence[bytes]) -> ClusterAuthorizationException:
    is_it = f"is `{hosts[0][:_MAX_SHOWN].decode('latin-1')}`" if len(hosts) == 1 else "is missing or repeated"
    return ClusterAuthorizationException(
        f"the header `Host` {is_it}, but without callers only `localhost` and IP addresses are answered, as another "
        f"name may be a web site's; use such an address, or {_WAY_OUT}"
    )
