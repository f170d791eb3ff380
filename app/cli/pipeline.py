"""`klamm pipeline JOB`: jobs over the service's own database unless another one is named.

Needs the extra `spark`; nothing else of Klamm does.
"""

import argparse
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from app.settings.model import read_settings
from app.store.embedded.cluster import DATABASE, USER
from app.store.embedded.folder import LOOPBACK, DataFolder

if TYPE_CHECKING:
    from app.pipeline.spark.jdbc import JdbcSource

_EXTRA = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "plotly"})
_MISSING = (
    "klamm: `klamm pipeline` needs the extra `spark`; in a clone `make setup` installs it, as does "
    ".venv/bin/pip install -e '.[spark]'\n"
)
_CONNECT_S = 2.0

_PROPERTIES: Final[Mapping[str, str]] = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "sslnegotiation": "sslNegotiation",
    "search_path": "currentSchema",
}
"""What `database.url` may say, and how the JDBC driver calls it. The rest is the service's own business."""
_FROM_ENVIRONMENT = ("sslmode", "sslrootcert", "sslcert", "sslkey")
"""PostgreSQL's variables (PGSSLMODE, ...) that count for the service where its URL is silent."""


def run_pipeline(arguments: Sequence[str]) -> int:
    """Runs one job; the exit code is that of `app.pipeline.job`, 2 if the extra is not installed."""
    try:
        from app.pipeline.job import main  # noqa: PLC0415 - from an extra that may not be installed
    except ImportError as fault:
        if isinstance(fault, ModuleNotFoundError) and (fault.name or "").partition(".")[0] in _EXTRA:
            sys.stderr.write(_MISSING)
            return 2
        # Not 1, which is what a job says that has found something.
        sys.stderr.write(f"klamm: `klamm pipeline` can't be loaded ({fault}); install klamm[spark] anew\n")
        return 3
    return main(arguments, service=ServiceDatabase())


class ServiceDatabase:
    """The database that `klamm serve` works on: of `database.url`, or the embedded one that it runs."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare --data-dir, as `klamm serve` has it."""
        parser.add_argument(
            "--data-dir",
            metavar="FOLDER",
            help="folder of the embedded PostgreSQL that `klamm serve` runs; it and KLAMM_DATABASE_URL are looked at "
            "unless a JDBC URL is given (.klamm)",
        )

    def source(self, arguments: argparse.Namespace) -> "JdbcSource":
        """How jobs reach it. Raises UsageError if it is not there, or if Java has no way to it."""
        settings = read_settings({"data_dir": arguments.data_dir})
        if settings.database_url is not None:
            return source_of(settings.database_url.get_secret_value(), os.environ)
        return embedded_source(settings.data_dir)


def embedded_source(data_dir: Path) -> "JdbcSource":
    """The PostgreSQL that a `klamm serve` runs on this folder. Raises PipelineError if none does."""
    from app.pipeline.spark.errors import PipelineError  # noqa: PLC0415 - as above
    from app.pipeline.spark.jdbc import JdbcSource  # noqa: PLC0415 - as above

    folder = DataFolder(data_dir)
    try:
        password = folder.password()
        port = int((folder.path / "port").read_text(encoding="ascii"))
        with socket.create_connection((LOOPBACK, port), timeout=_CONNECT_S):
            pass
    except PermissionError as error:
        raise PipelineError(
            f"`{error.filename}` is closed to this user; run the job as whoever runs `klamm serve`, or name a database "
            "with --jdbc-url"
        ) from None
    except (OSError, ValueError):
        raise PipelineError(
            f"no `klamm serve` is at work on `{data_dir}`; start it (klamm serve --data-dir {data_dir}), name its "
            "folder with --data-dir, or a PostgreSQL of your own with KLAMM_DATABASE_URL or --jdbc-url"
        ) from None
    return JdbcSource(f"jdbc:postgresql://{LOOPBACK}:{port}/{DATABASE}", USER, password)


def source_of(dsn: str, environ: Mapping[str, str]) -> "JdbcSource":
    """What `database.url` says, for Java. Raises PipelineError for what Java has no way to."""
    from app.pipeline.spark.errors import PipelineError  # noqa: PLC0415 - as above
    from app.pipeline.spark.jdbc import JdbcSource  # noqa: PLC0415 - as above

    parts = urlsplit(dsn)
    said = dict(parse_qsl(parts.query, keep_blank_values=True))
    user_part, _, listed = parts.netloc.rpartition("@")
    user, _, password = user_part.partition(":")
    hosts = unquote(listed) or said.get("host") or environ.get("PGHOST") or "localhost"
    if "/" in hosts or "service" in said:
        raise PipelineError(
            "`database.url` leads to a Unix socket or to a service file, which Java knows nothing of; name the "
            "database with --jdbc-url jdbc:postgresql://host:port/database"
        )
    if not listed and (port := said.get("port") or environ.get("PGPORT")):
        hosts = f"{hosts}:{port}"
    user = unquote(user) or said.get("user") or environ.get("PGUSER", "")
    password = unquote(password) or said.get("password") or environ.get("PGPASSWORD", "")
    database = unquote(parts.path[1:]) or said.get("database") or said.get("dbname") or environ.get("PGDATABASE", user)
    for name in _FROM_ENVIRONMENT:
        if environ.get(f"PG{name.upper()}"):
            said.setdefault(name, environ[f"PG{name.upper()}"])
    properties = {_PROPERTIES[name]: value for name, value in said.items() if name in _PROPERTIES}
    return JdbcSource(
        f"jdbc:postgresql://{hosts}/{quote(database, safe='')}", user or None, password or None, properties
    )
