"""What tracing loads, asks for and waits for."""

import asyncio
import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.logs.tracing import Tracing
from tests.collector import Collector
from tests.gate.unit.logs.test_tracing import ask

ROOT = Path(__file__).parents[4]


async def test_a_collector_that_does_not_answer_costs_spans_and_two_seconds(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")
    collector.answering.clear()
    tracing = Tracing("1.2.3")
    with caplog.at_level(logging.WARNING):
        for _ in range(500):
            await ask(tracing, "/v1/authorize")
        began = time.monotonic()
        async with asyncio.timeout(10):
            await tracing.close()
        within_s = time.monotonic() - began
        collector.answering.set()
    assert within_s < 10
    full = [record for record in caplog.records if "Queue full" in str(record.msg)]
    assert len(full) <= 1


def test_nothing_is_imported_while_it_is_off() -> None:
    program = (
        "import sys, app.cli.serving, app.cli.main, app.cli.worker, app.logs.tracing\n"
        "ours = ('opentelemetry.sdk', 'opentelemetry.exporter', 'opentelemetry.proto', 'google', 'requests')\n"
        "print([name for name in sys.modules if name.startswith(ours)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_a_missing_extra_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").write_text("raise ModuleNotFoundError('no', name='opentelemetry')\n")
    program = (
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "from app.logs.tracing import Tracing, UsageError\n"
        "try:\n    Tracing('1')\nexcept UsageError as refusal:\n    print(refusal)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert ".venv/bin/pip install -e '.[otel]'" in done.stdout
    assert "otel.enabled" in done.stdout
