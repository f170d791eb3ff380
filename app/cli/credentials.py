"""What settings say about callers, certificates and exposed addresses, turned into objects and refusals."""

import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.core.kafka.hosts import is_loopback
from app.formats.command_errors import UsageError
from app.logs.redaction import conceal_url
from app.logs.service import configure_logging
from app.metrics.declared import Metrics
from app.rest.callers.authentication import Callers, Credentials
from app.rest.callers.certificates import CertificateWatch
from app.rest.callers.rate_limits import RateLimit
from app.rest.callers.roles import Caller, Role
from app.rest.callers.static_tokens import StaticTokens
from app.rest.callers.token_file import read_tokens
from app.settings.callers import CallerSettings, IssuerSettings, callers_without_proof
from app.settings.model import Settings

if TYPE_CHECKING:
    from app.rest.callers.jwt_tokens import JwtVerifier

_log = logging.getLogger(__name__)


def begin_logging(settings: Settings, worker: int | None = None) -> None:
    configure_logging(settings.log_level, worker=worker, form=settings.log_format)
    if settings.database_url is not None:
        conceal_url(settings.database_url)


def callers_of(settings: Settings, metrics: Metrics) -> Callers:
    if not settings.callers:
        return Callers(None, metrics, on_unix_socket=settings.uds is not None)
    callers = {name: _caller(name, each) for name, each in settings.callers.items()}
    subjects = {
        (each.issuer, each.token_subject): callers[name]
        for name, each in settings.callers.items()
        if each.issuer is not None and each.token_subject is not None
    }
    tokens: StaticTokens | None = None
    if settings.tokens_file is not None:
        with _naming_tokens_file():
            tokens = StaticTokens(settings.tokens_file, callers, metrics)
    credentials = Credentials(
        callers=callers,
        tokens=tokens,
        jwts=_verifier_of(settings.issuers) if settings.issuers else None,
        subjects=subjects,
        certificates={
            each.certificate: callers[name] for name, each in settings.callers.items() if each.certificate is not None
        },
    )
    return Callers(credentials, metrics)


@contextmanager
def _naming_tokens_file() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        raise UsageError(f"tokens.file: {error}") from None


def warn_of_unusable_callers(settings: Settings) -> None:
    """Logs callers without a token or certificate, and issuers without callers. Raises UsageError."""
    unproven = set(callers_without_proof(settings.callers))
    if settings.tokens_file is not None:
        with _naming_tokens_file():
            unproven.difference_update(read_tokens(settings.tokens_file, settings.callers).values())
    if unproven:
        why = "tokens.file has no token for them; make one for each with `klamm token NAME`"
        _log.warning("caller_without_proof", extra={"callers": ",".join(sorted(unproven)), "why": why})
    unused = settings.issuers.keys() - {each.issuer for each in settings.callers.values()}
    if unused:
        why = "no caller names them as its `issuer`, so all of their tokens are refused"
        _log.warning("issuer_without_callers", extra={"issuers": ",".join(sorted(unused)), "why": why})


def certificate_of(settings: Settings) -> CertificateWatch | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return CertificateWatch(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)


def refuse_exposed_address(settings: Settings) -> None:
    """Raises UsageError if strangers could reach a service that identifies no callers."""
    is_local = settings.uds is not None or resolves_to_loopback(settings.host)
    if settings.callers and not is_local and settings.tls_certificate is None:
        why = (
            "tokens and answers are sent unencrypted; set tls.certificate and tls.key, unless a proxy on this "
            "machine does TLS"
        )
        _log.warning("served_without_tls", extra={"host": settings.host, "why": why})
    if settings.callers or is_local:
        return
    raise UsageError(
        f"host: `{settings.host}` can be reached from other machines, and no callers are configured, so anybody "
        "could act as any principal; write a `[callers.NAME]` table into klamm.toml (docs/callers.md), or serve on "
        "127.0.0.1 or on a Unix socket (--uds)"
    )


def resolves_to_loopback(host: str) -> bool:
    """Raises UsageError if the host has no address."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise UsageError(
            f"host: `{host}` can't be resolved ({error.strerror}); use an address of this machine"
        ) from None
    return bool(found) and all(is_loopback(str(each[4][0])) for each in found)


def _caller(name: str, settings: CallerSettings) -> Caller:
    rate = settings.requests_per_second
    return Caller(
        name,
        Role(settings.role),
        settings.principal,
        settings.principals,
        may_assert_super=settings.may_assert_super,
        may_assert_address=settings.may_assert_address,
        groups=settings.groups,
        groups_claim=settings.groups_claim,
        limit=None if rate is None else RateLimit(rate),
    )


def _verifier_of(issuers: Mapping[str, IssuerSettings]) -> "JwtVerifier":
    from app.rest.callers.jwt_tokens import Issuer, JwtVerifier  # noqa: PLC0415 - cryptography is slow to load
    from app.rest.callers.key_sets import KeySet  # noqa: PLC0415 - and so is an HTTP client

    return JwtVerifier(
        [
            Issuer(
                name=name,
                issuer=each.issuer,
                audience=each.audience,
                algorithms=frozenset(each.algorithms),
                leeway_s=each.leeway_s,
                keys=KeySet(each.jwks, ca_file=each.ca_file, bearer_file=each.bearer_file),
            )
            for name, each in issuers.items()
        ]
    )
