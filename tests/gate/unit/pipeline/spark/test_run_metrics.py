"""The numbers of a run, for people and for Prometheus."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.pipeline.spark import run_metrics
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.run_metrics import RunMetrics, write_metrics


def _run(job: str, exit_code: int, began: float, ended: float, **counts: int) -> RunMetrics:
    metrics = RunMetrics(job)
    for name, n in counts.items():
        metrics.count(name, n)
    metrics.end(exit_code)
    metrics.began, metrics.ended = began, ended
    return metrics


def _samples(path: Path) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def test_counts_add_up_and_make_a_line() -> None:
    metrics = _run("export", 0, 10.0, 14.2, records_read=1_000_000)
    metrics.count("records_read", 2)
    metrics.count("files_written", 3)
    assert str(metrics) == "done in 4.2 s: 1,000,002 records read, 3 files written"
    assert str(_run("export", 3, 0.0, 2.0)) == "failed after 2.0 s"


def test_a_run_lasts_from_its_beginning_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(run_metrics, "time", SimpleNamespace(time=lambda: now))
    metrics = RunMetrics("export")
    now = 1_001.5
    assert metrics.duration_s == 1.5
    now = 1_004.0
    metrics.end(0)
    now = 1_100.0
    assert (metrics.began, metrics.ended, metrics.duration_s) == (1_000.0, 1_004.0, 4.0)


def test_the_file_is_what_prometheus_reads(tmp_path: Path) -> None:
    file = tmp_path / "klamm.prom"
    write_metrics(file, [_run("nightly", 1, 100.0, 160.5), _run("export", 0, 100.0, 110.0, rows_written=7)])
    samples = _samples(file)
    assert samples["klamm_pipeline_rows", "export", "rows_written"] == 7
    assert samples["klamm_pipeline_duration_seconds", "nightly"] == 60.5
    assert samples["klamm_pipeline_exit_code", "nightly"] == 1
    assert samples["klamm_pipeline_success", "nightly"] == 1
    assert samples["klamm_pipeline_last_run_timestamp_seconds", "export"] == 110
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [file]


def test_a_failure_does_not_forget_the_last_success(tmp_path: Path) -> None:
    file = tmp_path / "klamm.prom"
    write_metrics(file, [_run("what-if", 0, 1.0, 5.0)])
    for _ in range(2):
        write_metrics(file, [_run("what-if", 3, 10.0, 11.0)])
    samples = _samples(file)
    assert samples["klamm_pipeline_success", "what-if"] == 0
    assert samples["klamm_pipeline_last_run_timestamp_seconds", "what-if"] == 11
    assert samples["klamm_pipeline_last_success_timestamp_seconds", "what-if"] == 5


def test_a_file_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"--metrics-file: can't write `.*none/klamm.prom` \(No such file"):
        write_metrics(tmp_path / "none" / "klamm.prom", [_run("export", 0, 1.0, 2.0)])
