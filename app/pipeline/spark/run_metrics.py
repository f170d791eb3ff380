"""What a run has read and written, in numbers: a line for people, a file for Prometheus' node_exporter."""

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.local_cache import put_file
from app.pipeline.spark.progress import seconds

_ROWS = "klamm_pipeline_rows"
_DURATION = "klamm_pipeline_duration_seconds"
_EXIT_CODE = "klamm_pipeline_exit_code"
_SUCCESS = "klamm_pipeline_success"
_LAST_RUN = "klamm_pipeline_last_run_timestamp_seconds"
_LAST_SUCCESS = "klamm_pipeline_last_success_timestamp_seconds"

_HELP: Mapping[str, str] = {
    _ROWS: "Rows of the last run, by what was done with them.",
    _DURATION: "Duration of the last run in seconds.",
    _EXIT_CODE: "Exit code of the last run: 0, 1 something was found, 2 wrong usage, 3 Spark failed.",
    _SUCCESS: "1 if the last run succeeded (exit code 0 or 1), else 0.",
    _LAST_RUN: "When the last run ended, in seconds since 1970.",
    _LAST_SUCCESS: "When the last successful run ended, in seconds since 1970.",
}
_FOUND_SOMETHING = 1


class RunMetrics:
    """The numbers of one job's run. Names of counts are words joined by `_`: records_read, rows_written."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.counts: dict[str, int] = {}
        self.began = time.time()
        self.ended: float | None = None
        """Both in seconds since 1970."""
        self.exit_code = 0

    def count(self, name: str, n: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + n

    def end(self, exit_code: int) -> None:
        self.ended = time.time()
        self.exit_code = exit_code

    @property
    def duration_s(self) -> float:
        return max(0.0, (time.time() if self.ended is None else self.ended) - self.began)

    @property
    def succeeded(self) -> bool:
        return self.exit_code <= _FOUND_SOMETHING

    def __str__(self) -> str:
        counted = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in self.counts.items())
        how = "done in" if self.succeeded else "failed after"
        return f"{how} {seconds(self.duration_s)}{': ' if counted else ''}{counted}"


def write_metrics(path: Path, runs: Sequence[RunMetrics]) -> None:
    """Atomically, in Prometheus' text format. Jobs that failed keep the last success that the file had."""
    before = _last_successes(path)
    samples: dict[str, list[str]] = {name: [] for name in _HELP}
    for run in runs:
        job = f'job="{run.job}"'
        samples[_ROWS] += [f'{{{job},name="{name}"}} {n}' for name, n in run.counts.items()]
        samples[_DURATION].append(f"{{{job}}} {run.duration_s:.3f}")
        samples[_EXIT_CODE].append(f"{{{job}}} {run.exit_code}")
        samples[_SUCCESS].append(f"{{{job}}} {int(run.succeeded)}")
        samples[_LAST_RUN].append(f"{{{job}}} {run.ended or 0:.3f}")
        if run.succeeded:
            before[run.job] = f"{run.ended or 0:.3f}"
    samples[_LAST_SUCCESS] = [f'{{job="{job}"}} {when}' for job, when in before.items()]
    lines = []
    for name, values in samples.items():
        if values:
            lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge", *(f"{name}{each}" for each in values)]
    try:
        # Another user collects it, and reads only names that end with .prom: the file gets that name once it is whole.
        put_file(path, "".join(f"{line}\n" for line in lines).encode(), 0o644)
    except OSError as error:
        raise PipelineError(
            f"--metrics-file: can't write `{path}` ({error.strerror}); name a file in an existing folder"
        ) from None


def _last_successes(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(re.findall(rf'^{_LAST_SUCCESS}{{job="([\w-]+)"}} ([\d.]+)$', text, re.MULTILINE))
