"""How jobs reach PostgreSQL: a URL without secrets, a user, and a password from the environment or a file."""

import argparse
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.formats.database_url import JDBC_SCHEME, DatabaseUrl
from app.pipeline.spark.errors import PipelineError, UnreachableError

URL_VARIABLE = "KLAMM_PIPELINE_JDBC_URL"
USER_VARIABLE = "KLAMM_PIPELINE_JDBC_USER"
PASSWORD_VARIABLE = "KLAMM_PIPELINE_JDBC_PASSWORD"  # noqa: S105 - a name, no password
PASSWORD_FILE_VARIABLE = "KLAMM_PIPELINE_JDBC_PASSWORD_FILE"  # noqa: S105 - the same

# The names of our sessions in the database: those that read, and those that record how far an export has come.
READER, TELLER = "klamm-pipeline", "klamm-pipeline tells"

_CONNECT_S = 10
_SECRETS = frozenset({"password", "sslpassword", "user"})
_EXPECTED = f"expected {JDBC_SCHEME}host:port/database"
_JAVA_TRUST = "org.postgresql.ssl.DefaultJavaSSLFactory"
_ROOT_AT_HOME = Path("~/.postgresql/root.crt")


@dataclass(frozen=True, slots=True)
class JdbcSource:
    """The password is only an option of the reader, which Spark redacts in its plans."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further options of the driver; there may be secrets among them."""

    def options(self, *, read_only: bool = True) -> dict[str, str]:
        """What `spark.read.format("jdbc").options(...)` takes, besides what to read."""
        options = {
            "url": self.url,
            "driver": "org.postgresql.Driver",
            "fetchsize": "10000",
            "ApplicationName": READER if read_only else TELLER,
            "tcpKeepAlive": "true",
            "connectTimeout": str(_CONNECT_S),  # seconds, as are all of the driver's
            "loginTimeout": "30",
            "socketTimeout": "900",
            "options": f"-c default_transaction_read_only={'on' if read_only else 'off'}",
            **_tls(self.url, self.properties),
            **self.properties,
        }
        login = {"user": self.user, "password": self.password}
        return options | {name: value for name, value in login.items() if value is not None}


def jdbc_source(arguments: argparse.Namespace, environ: Mapping[str, str]) -> JdbcSource:
    """The database that flags or variables name, else the service's own. Raises PipelineError."""
    url = arguments.jdbc_url or environ.get(URL_VARIABLE)
    if not url:
        service = getattr(arguments, "service", None)
        if service is not None:
            source: JdbcSource = service.source(arguments)
            return source
        raise PipelineError(
            f"no database is named; give --jdbc-url {JDBC_SCHEME}host:port/database, or set {URL_VARIABLE}"
        )
    check_url(url, "--jdbc-url" if arguments.jdbc_url else URL_VARIABLE)
    return JdbcSource(url, arguments.jdbc_user or environ.get(USER_VARIABLE) or None, password_of(environ))


def check_reachable(arguments: argparse.Namespace, environ: Mapping[str, str]) -> None:
    """Raises PipelineError if no database is named, or if none of its hosts takes a connection from this machine."""
    parsed = DatabaseUrl.parse_jdbc(jdbc_source(arguments, environ).url)
    # A socket factory connects in its own way.
    if "socketfactory" in parsed.options:
        return
    why = ""
    for host, port in parsed.hosts:
        try:
            with socket.create_connection((host, int(port)), timeout=_CONNECT_S):
                return
        except (OSError, UnicodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    # INVARIANT: as in `check_url`, no part of the URL gets into a text.
    raise UnreachableError(
        f"PostgreSQL can't be reached: {why}; check host and port of the URL, and that it runs there"
    )


def password_of(environ: Mapping[str, str]) -> str | None:
    """Raises PipelineError if the password's file can't be read."""
    given, name = environ.get(PASSWORD_VARIABLE), environ.get(PASSWORD_FILE_VARIABLE)
    if given is not None and name is not None:
        raise PipelineError(f"{PASSWORD_VARIABLE} and {PASSWORD_FILE_VARIABLE} are both set; give one of them")
    if name is None:
        return given
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise PipelineError(f"{PASSWORD_FILE_VARIABLE}: can't read `{name}` ({why})") from None


def check_url(url: str, where: str) -> None:
    # INVARIANT: no part of the URL gets into a text, because a typing error can make any part of it the password.
    if url.startswith(("postgresql://", "postgres://")):
        raise PipelineError(f"{where} is a libpq URL; {_EXPECTED}, with user and password separately")
    try:
        parsed = DatabaseUrl.parse_jdbc(url)
    except ValueError as fault:
        raise PipelineError(f"{where}: {fault}") from None
    if parsed.user or parsed.password or _SECRETS & parsed.options.keys():
        raise PipelineError(
            f"{where} holds a user or password, which others could see in the process list; remove it, set "
            f"{PASSWORD_VARIABLE} or {PASSWORD_FILE_VARIABLE}, and use --jdbc-user or {USER_VARIABLE} for the user"
        )


def _tls(url: str, properties: Mapping[str, str]) -> dict[str, str]:
    """TLS as the service has it: to another machine, certificate and host name are verified unless told otherwise.

    Java's own certificate authorities are trusted, unless a file of authorities is named or in its usual place.
    """
    parsed = DatabaseUrl.parse_jdbc(url)
    options_given = {**{name.lower(): value for name, value in properties.items()}, **parsed.options}
    options = {}
    mode = options_given.get("sslmode")
    if mode is None and not parsed.is_local:
        mode = options["sslmode"] = "verify-full"
    # If no file is named, the driver itself knows only ~/.postgresql/root.crt.
    named = options_given.get("sslrootcert") or ("" if _ROOT_AT_HOME.expanduser().is_file() else "system")
    if mode == "verify-full" and named == "system" and "sslfactory" not in options_given:
        options["sslfactory"] = _JAVA_TRUST
    return options
