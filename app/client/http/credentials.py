"""How a command proves who is calling, with a token or a certificate, and whom it trusts."""

import os
import ssl
import stat
from pathlib import Path

from app.client.http.access import Access
from app.formats.command_errors import UsageError
from app.formats.secret_files import refuse_if_open

_MAX_TOKEN_BYTES = 16 * 1024


class Bearer:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._kept: str | None = None
        """The content of a pipe, which can be read only once."""

    def header(self) -> dict[str, str]:
        """Empty without a token. A file is read each time, as tokens are renewed.

        Raises UsageError, without any part of the token, if it can't be read or sent, or if others could read it.
        """
        access = self._access
        if access.token is not None:
            return {"authorization": f"Bearer {_checked(access.token, '--command-config: `token`')}"}
        if access.token_file is None:
            return {}
        where = f"{access.named_by}: `{access.token_file}`"
        return {"authorization": f"Bearer {_checked(self._read(access.token_file, where), where)}"}

    def _read(self, path: Path, where: str) -> str:
        if self._kept is not None:
            return self._kept
        try:
            with path.open("rb") as file:
                refuse_if_open(file, path, self._access.named_by, "the token")
                # Reads a pipe to its end, as it may come in pieces.
                text = file.read(_MAX_TOKEN_BYTES + 1).decode("latin-1")
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    self._kept = text
        except OSError as error:
            raise UsageError(f"{where}: can't be read ({error.strerror})") from None
        return text


def tls_context(access: Access) -> ssl.SSLContext:
    """Raises UsageError."""
    if access.ca_file is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_authorities(context, access.ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.certificate is not None and access.key is not None:
        _load_certificate(context, access.certificate, access.key)
    elif access.certificate is not None or access.key is not None:
        raise UsageError(
            "--command-config: `ssl.certificate.location` and `ssl.key.location` belong together; give both or neither"
        )
    return context


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    where = f"--ca (ssl.ca.location): `{path}`"
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise UsageError(f"{where} holds no certificates in PEM") from None
    except OSError as error:
        raise UsageError(f"{where}: can't be read ({error.strerror})") from None


def _load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    for path in (certificate, key):
        try:
            with path.open("rb") as file:
                if path == key:
                    refuse_if_open(file, path, "--command-config: `ssl.key.location`", "the private key")
        except OSError as error:
            raise UsageError(f"--command-config: can't read `{path}` ({error.strerror})") from None
    try:
        # With no password at all, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError):
        raise UsageError(
            f"--command-config: `{certificate}` and `{key}` are not a certificate and its key in PEM, or the key is "
            "encrypted; use an unencrypted key"
        ) from None


def _checked(text: str, where: str) -> str:
    token = text.strip()
    if not token:
        raise UsageError(f"{where}: the token is empty")
    if len(token) > _MAX_TOKEN_BYTES or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{where}: not a token; it must hold one token on one line, and nothing else")
    return token
