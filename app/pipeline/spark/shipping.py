"""What executors need of Klamm: the driver sends them the code that it runs itself, so that none has to be installed.

Executors bring PySpark, pyarrow and pandas. All other code that runs there is from core and pipeline.
"""

import argparse
import hashlib
import io
import sys
import threading
import zipfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import SparkSession

from app import __version__
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.session import is_of_this_machine

ROOMS = ("core", "formats", "pipeline")
"""All that a job imports from Klamm, even on the driver."""

_LEFT_OUT = ("__pycache__", "jars")
_TAG = "klamm-first-tasks"
_FIRST_TASKS = 8
_PATIENCE_S = 600.0


def package() -> bytes:
    """A zip for `spark-submit --py-files`: the same bytes for the same code, wherever that was loaded from."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, source in _sources():
            # Without a date every file is from 1980.
            archive.writestr(zipfile.ZipInfo(name), source.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


class WritePackage(argparse.Action):
    """`--package FILE`, which writes the package and does nothing else."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - argparse gives it
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        path = Path(str(values))
        if path.suffix != ".zip":
            parser.error(f"{option_string}: `{path}` does not end in .zip, which spark-submit needs")
        try:
            path.write_bytes(package())
        except OSError as error:
            parser.error(f"{option_string}: `{path}` can't be written ({error.strerror}); name another file")
        parser.exit()


def ships(spark: SparkSession) -> bool:
    """Whether executors are processes that need not have Klamm; those of a local run are children of this one."""
    return not is_of_this_machine(spark.conf.get("spark.master"))


def ship(spark: SparkSession) -> None:
    """Sends the package to all present and future executors.

    Raises PipelineError if no executor takes work, or if one runs different code.
    """
    content = package()
    # Spark's own folder: an executor may ask for the file at any time of the session, and Spark removes it at the end.
    folder = Path(SparkFiles.getRootDirectory()) / "klamm"
    folder.mkdir(exist_ok=True)
    # Spark keeps one file for each name, the first that came with it.
    path = folder / f"klamm-{__version__}-{hashlib.sha256(content).hexdigest()[:12]}.zip"
    path.write_bytes(content)
    spark.addArtifacts(str(path), pyfile=True)
    refuse_others(spark)


def refuse_others(spark: SparkSession) -> None:
    tasks = spark.range(0, _FIRST_TASKS, 1, _FIRST_TASKS)
    gave_up = threading.Event()

    def give_up() -> None:
        gave_up.set()
        spark.interruptTag(_TAG)

    timer = threading.Timer(_PATIENCE_S, give_up)
    timer.daemon = True
    spark.addTag(_TAG)
    timer.start()
    try:
        found = {row["runs"] for row in tasks.mapInArrow(_runs, "runs string").collect()}
    except Exception:
        if gave_up.is_set():
            raise PipelineError(
                f"no executor took work within {_PATIENCE_S / 60:.0f} min; check that the cluster has workers with "
                "as much memory and as many cores as an executor asks for (spark.executor.memory, .cores)"
            ) from None
        raise
    finally:
        timer.cancel()
        spark.removeTag(_TAG)
    if others := sorted(found - {version()}):
        raise PipelineError(
            f"executors run {' and '.join(others)}, and this driver runs {version()}; both must be the same: leave "
            "Klamm out of --py-files and of the executors' Python, the driver sends its own"
        )


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"runs": [version()]})


def version() -> str:
    return f"Klamm {__version__} on Python {sys.version_info.major}.{sys.version_info.minor}"


def _sources() -> Iterator[tuple[str, Traversable]]:
    root = files("app")
    yield "app/__init__.py", root / "__init__.py"
    for room in ROOMS:
        yield from _below(root / room, f"app/{room}")


def _below(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_file():
            yield f"{name}/{each.name}", each
        elif each.name not in _LEFT_OUT:
            yield from _below(each, f"{name}/{each.name}")
