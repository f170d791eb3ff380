"""`klamm pipeline JOB`: runs a Spark job, on the service's own database unless another one is named.

Needs the extra `spark`; nothing else in Klamm does.
"""

import argparse
import shlex
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from app.formats.database_url import DatabaseUrl
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.jdbc import JdbcSource
from app.settings.model import read_settings
from app.store.embedded.cluster import DATABASE, USER
from app.store.embedded.folder import LOOPBACK, DataFolder

_EXTRA = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "plotly"})
_MISSING = (
    "klamm pipeline: the extra `spark` is not installed; in a clone run `make setup`, or .venv/bin/pip install -e "
    "'.[spark]'\n"
)
_CONNECT_S = 2.0


def main(words: Sequence[str], _out: TextIO) -> int:
    """The exit code is that of `app.pipeline.job`; 2 if the extra is not installed, 3 if it can't be loaded."""
    try:
        from app.pipeline.job import main as run_job  # noqa: PLC0415 - from an extra that may not be installed
    except ImportError as fault:
        if isinstance(fault, ModuleNotFoundError) and (fault.name or "").partition(".")[0] in _EXTRA:
            sys.stderr.write(_MISSING)
            return 2
        # Not 1: that means that a job has found something.
        sys.stderr.write(f"klamm pipeline: can't load it ({fault}); reinstall klamm[spark]\n")
        return 3
    return run_job(words, service=ServiceDatabase())


class ServiceDatabase:
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--data-dir",
            metavar="FOLDER",
            help="folder of the embedded PostgreSQL that `klamm serve` runs; used if neither a JDBC URL nor "
            "KLAMM_DATABASE_URL is given (.klamm)",
        )

    def source(self, arguments: argparse.Namespace) -> JdbcSource:
        """Raises PipelineError if it is not there, or if Java can't connect to it; UsageError for wrong settings."""
        settings = read_settings({"data_dir": arguments.data_dir})
        if settings.database_url is not None:
            return source_of(settings.database_url)
        return embedded_source(settings.data_dir)


def embedded_source(data_dir: Path) -> JdbcSource:
    """Raises PipelineError if no `klamm serve` runs a PostgreSQL on this folder."""
    folder = DataFolder(data_dir)
    try:
        password = folder.password()
        port = int((folder.path / "port").read_text(encoding="ascii"))
        with socket.create_connection((LOOPBACK, port), timeout=_CONNECT_S):
            pass
    except PermissionError as error:
        raise PipelineError(
            f"this user may not read `{error.filename}`; run the job as the user that runs `klamm serve`, or name a "
            "database with --jdbc-url"
        ) from None
    except (OSError, ValueError):
        raise PipelineError(
            f"no `klamm serve` is running on `{data_dir}`; start it (klamm serve --data-dir "
            f"{shlex.quote(str(data_dir))}), name its folder with --data-dir, or a PostgreSQL of your own with "
            "KLAMM_DATABASE_URL or --jdbc-url"
        ) from None
    return JdbcSource(f"jdbc:postgresql://{LOOPBACK}:{port}/{DATABASE}", USER, password)


def source_of(url: DatabaseUrl) -> JdbcSource:
    """Raises PipelineError if Java can't connect to it."""
    try:
        return JdbcSource(url.jdbc, url.user or None, url.password or None, url.jdbc_properties)
    except ValueError as fault:
        raise PipelineError(
            f"{fault}; name the database with --jdbc-url jdbc:postgresql://host:port/database"
        ) from None
