"""TLS of the server, and the names in clients' certificates."""

import asyncio
import hashlib
import logging
import ssl
import time
from contextlib import suppress
from pathlib import Path

from app.formats.command_errors import UsageError
from app.runtime.deadlines import stop

_LOOK_EACH_S = 1.0
_KINDS = frozenset({"DNS", "URI"})

_log = logging.getLogger(__name__)


def server_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS 1.2 or newer with this certificate (and its chain). Raises UsageError.

    With `client_ca`, clients may send certificates of these authorities.
    """
    for setting, path in (("tls.certificate", certificate), ("tls.key", key), ("tls.client.ca", client_ca)):
        if path is not None:
            _check_readable(setting, path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A ticket would let a client resume after its certificate has expired or lost its authority.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    _load_chain(context, certificate, key)
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except OSError:  # ssl.SSLError is one, too
            raise UsageError(
                f"tls.client.ca: `{client_ca}` contains no certificates; give the authorities' certificates in PEM form"
            ) from None
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _check_readable(setting: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise UsageError(
            f"{setting}: `{path}` can't be read ({error.strerror}); give a file that this user can read"
        ) from None


def _load_chain(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        # Without a password, OpenSSL would ask for it at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:  # ssl.SSLError is one, too
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            raise UsageError(
                f"tls.key: `{key}` is not the key of the certificate `{certificate}`; give a matching pair"
            ) from None
        raise UsageError(
            f"tls.certificate, tls.key: `{certificate}` and `{key}` can't be used; give a certificate with its chain "
            "and its private key, both in PEM form and not encrypted"
        ) from None


class CertificateWatch:
    """A server's TLS that follows its files: certificate, key and the clients' authorities.

    `context` stays the same object; new connections use the new files. If those can't be used, the old ones stay in
    use, and the log says so. Raises UsageError for the first ones.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._paths = (certificate, key, client_ca)
        self._fault: tuple[str, bytes] = ("", b"")
        self._digest = _digest_of(*self._paths)
        self._trust = _digest_of(client_ca)
        self._trusted_since = float("-inf")
        self.context = self._current = server_context(*self._paths)
        self.context.sni_callback = self._exchange
        self._following: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        if self._following is not None:
            await stop(self._following)

    def look(self) -> None:
        """Blocks while it reads the files."""
        # INVARIANT: a change that could not be read is tried again, as it may remove an authority.
        digest = _digest_of(*self._paths)
        if digest == self._digest:
            return
        try:
            current = server_context(*self._paths)
        except UsageError as error:
            # The same fault is found at each look.
            if (str(error), digest) != self._fault:
                self._fault = (str(error), digest)
                _log.error("certificate_not_reloaded", extra={"why": str(error)})
            return
        self._digest, self._fault = digest, ("", b"")
        trust = _digest_of(self._paths[2])
        if trust != self._trust:
            self._trust, self._trusted_since = trust, time.time()
        self._current = current
        _log.info("certificate_reloaded", extra={"certificate": str(self._paths[0])})

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EACH_S)
            try:
                await asyncio.to_thread(self.look)
            except Exception:  # noqa: BLE001 - an unexpected fault must not end the watching
                _log.exception("certificate_watch_fault")

    def _exchange(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        """Called at the beginning of each handshake, which then uses the files as they are now."""
        connection.context = self._current
        session = connection.session if connection.session_reused else None
        if session is not None and session.time <= self._trusted_since:
            # TLS 1.2 only: the client was verified against the earlier authorities.
            return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE
        return None


def _digest_of(*paths: Path | None) -> bytes:
    digest = hashlib.sha256()
    for path in paths:
        with suppress(OSError):
            content = b"" if path is None else path.read_bytes()
            digest.update(hashlib.sha256(content).digest())
    return digest.digest()


def names_of(transport: asyncio.BaseTransport) -> tuple[str, ...]:
    """The names in the client's verified certificate, such as `URI:spiffe://...` and `DNS:...`; () without one."""
    # Python returns names of verified certificates only.
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return ()
    # A resumed session of TLS 1.2 is not verified again.
    if ssl.cert_time_to_seconds(certificate["notAfter"]) <= time.time():
        return ()
    return tuple(f"{kind}:{name}" for kind, name in certificate.get("subjectAltName", ()) if kind in _KINDS)
