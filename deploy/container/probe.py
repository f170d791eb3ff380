#!/opt/klamm/bin/python -IS
"""Ask the Klamm of this container for a probe: `klamm-probe /livez`, `/readyz`, `/startupz`.

Where it serves is read from what it was started with: KLAMM_UDS, KLAMM_PORT, KLAMM_TLS_CERTIFICATE, or klamm.toml.
Ends with 0 if the answer is 200, with 1 if it is another one or none; the body is printed then, for the kubelet.
"""

import http.client
import os
import socket
import ssl
import sys
import tomllib
from typing import Any

TIMEOUT_S = 4.0
_OK = 200
_LIMIT = 4096


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def _settings() -> dict[str, Any]:
    try:
        with open("klamm.toml", "rb") as file:  # noqa: PTH123 - pathlib would double the time that this takes
            return tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError):
        return {}


def _setting(settings: dict[str, Any], name: str) -> str:
    variable = os.environ.get("KLAMM_" + name.upper().replace(".", "_"))
    if variable is not None:
        return variable
    found: object = settings
    for key in name.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return "" if found is None else str(found)


def _connection() -> http.client.HTTPConnection:
    settings = _settings()
    path = _setting(settings, "uds")
    if path:
        return _Unix(path)
    # It listens on all addresses or on loopback: here both answer. Which certificate it has is not this one's to judge.
    host, port = "127.0.0.1", int(_setting(settings, "port") or 8080)
    if _setting(settings, "tls.certificate"):
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=trusting)
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)


def main() -> int:
    """Ask, and tell by the exit code."""
    path = sys.argv[1] if len(sys.argv) > 1 else "/livez"
    try:
        connection = _connection()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(_LIMIT).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, ValueError) as fault:
        sys.stdout.write(f"no answer: {fault}\n")
        return 1
    if answer.status == _OK:
        return 0
    sys.stdout.write(f"{answer.status}\n{body}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
