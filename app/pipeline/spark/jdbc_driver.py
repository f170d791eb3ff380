"""PostgreSQL's JDBC driver: where a local run of Spark gets it, and the check that it is the right one."""

import atexit
import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.local_cache import cache_folder, put_file

COORDINATES = "org.postgresql:postgresql:42.7.14"
JAR = "postgresql-42.7.14.jar"
SHA256 = "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c"
JAR_VARIABLE = "KLAMM_PIPELINE_JDBC_JAR"

# A dependency that the driver declares: annotations for compilers.
_NOT_NEEDED = "org.checkerframework:checker-qual"


@dataclass(frozen=True, slots=True)
class Driver:
    """`jar` is None if Spark has to fetch it."""

    origin: str
    jar: str | None = None

    def options(self, environ: Mapping[str, str]) -> dict[str, str]:
        if self.jar is not None:
            return {"spark.jars": self.jar}
        settings = {"spark.jars.packages": COORDINATES, "spark.jars.excludes": _NOT_NEEDED}
        folder = _folder_of_one(environ)
        return settings if folder is None else {**settings, "spark.jars.ivy": folder}


def find_driver(named: str | None, environ: Mapping[str, str], carried: Path | None = None) -> Driver:
    """The jar that is named, else the installed package's own (`carried`), else the cache's, else one to be fetched.

    Raises PipelineError if the jar that is named or carried is none.
    """
    if named:
        return Driver("--jdbc-jar", _named(named, "--jdbc-jar"))
    if environ.get(JAR_VARIABLE):
        return Driver(JAR_VARIABLE, _named(environ[JAR_VARIABLE], JAR_VARIABLE))
    own = carried or Path(str(files("app.pipeline") / "jars" / JAR))
    if own.is_file():
        if _sum(own) != SHA256:
            raise PipelineError(f"`{own}` is not the driver that Klamm was built with; reinstall Klamm")
        return Driver("the installed package", str(own))
    kept = _kept(environ)
    if kept is not None and kept.is_file():
        if _sum(kept) == SHA256:
            return Driver("the cache", str(kept))
        # INVARIANT: a jar with another checksum is never used; the next one takes its place.
        kept.unlink(missing_ok=True)
    return Driver("Maven Central, or the mirror that Spark is configured for")


def keep_driver(jars: str, environ: Mapping[str, str]) -> None:
    """Keep what Spark has fetched (in spark.jars) for the next start.

    Raises PipelineError for a driver with another checksum: the session must not be used then.
    """
    fetched = [Path(unquote(urlsplit(each).path)) for each in jars.split(",") if each.strip().endswith(JAR)]
    for jar in fetched:
        content = jar.read_bytes()
        if hashlib.sha256(content).hexdigest() != SHA256:
            raise PipelineError(
                f"`{jar}`, which Spark has fetched as {COORDINATES}, does not have that driver's checksum; delete "
                "it, and if that does not help, name a jar that you trust with --jdbc-jar"
            )
        kept = _kept(environ)
        if kept is not None:
            put_file(kept, content, 0o600)


def _named(jar: str, where: str) -> str:
    # Spark checks URLs of its file systems itself.
    if "://" in jar:
        return jar
    path = Path(jar).expanduser().absolute()
    if not zipfile.is_zipfile(path):
        what = "there is no such file" if not path.exists() else "that is no jar"
        raise PipelineError(f"{where} is `{jar}`, but {what}; leave it out to have the driver found or fetched")
    return str(path)


def _kept(environ: Mapping[str, str]) -> Path | None:
    """None without a cache, which only costs a download."""
    try:
        return cache_folder(environ, "jdbc") / JAR
    except PipelineError:
        return None


def _folder_of_one(environ: Mapping[str, str]) -> str | None:
    """A folder for this process alone to fetch into: Ivy does not lock its cache, so others could read half a file."""
    try:
        folder = tempfile.mkdtemp(dir=cache_folder(environ, "jdbc"), prefix="ivy-")
    except (PipelineError, OSError):
        return None
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
