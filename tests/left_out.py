"""What `make test` leaves to `make test-full`: tests that take long beside what they add, by what they are of.

A folder or file is named here; a single test bears the marker `full`, with the same words.
"""

import os
import time
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

_BROKER = "a real Kafka broker"
_CLIENTS = "generated clients"
_FAULTS = "grids of faults"
_FETCHED = "image, wheel, and tools that are fetched"
_DRAWS = "long draws"
_SPARK = "long stories on Spark"
_SIGNALS = "kills, signals and frozen processes"
_NEVER_SKIPPED = (_SPARK, _SIGNALS)
"""CI runs these on every machine; `make test` alone goes without them."""

_PLACES = {
    "tests/proof/kafka/": _BROKER,
    "tests/proof/e2e/test_java_client.py": _CLIENTS,
    **{
        f"tests/proof/clients/test_{name}.py": _CLIENTS
        for name in ("examples", "generated_clients", "make_clients", "readmes")
    },
    "tests/proof/e2e/test_report_in_a_browser.py": "the report in a browser",
    "tests/proof/e2e/test_console_in_a_browser.py": "the console in a browser",
    "tests/proof/e2e/test_pipeline_demo.py": "the pipeline's demo",
    "tests/proof/cluster/": "a Spark cluster",
    "tests/proof/pipeline/test_export_killed.py": _FAULTS,
    **{
        f"tests/proof/pipeline/test_{name}.py": _SPARK
        for name in (
            "ending",
            "folding",
            "groups",
            "log_coverage",
            "mending",
            "merging",
            "one_finding",
            "propose",
            "shadowed",
            "usage",
        )
    },
    "tests/proof/e2e/test_expiry_on_followers.py": _SIGNALS,
    **{
        f"tests/proof/e2e/test_{name}.py": _FAULTS
        for name in ("damaged_feed", "failover", "feed_under_fire", "other_history", "outage", "rolling_restart")
    },
    **{f"tests/deploy/test_{name}.py": _FETCHED for name in ("check_deploy", "image_contents", "wheel")},
    "tests/proof/integration/test_openapi_lint.py": _FETCHED,
    "tests/proof/e2e/test_schemathesis.py": _DRAWS,
}

_DRAWN = (
    "tests/laws/",
    "tests/gate/differential/",
    *(f"tests/{level}/unit/{room}/" for level in ("gate", "proof") for room in ("core", "formats", "rest", "runtime")),
)
"""Here `slow` marks long draws and searches, of which all other tests of the room are a part; elsewhere whole tests."""

_left_out: Counter[str] = Counter()


def mark_full(items: Sequence[pytest.Item]) -> None:
    """Give the marker to what is in one of the places."""
    for item in items:
        of = next((words for place, words in _PLACES.items() if item.nodeid.startswith(place)), None)
        if of is None and item.nodeid.startswith(_DRAWN) and item.get_closest_marker("slow") is not None:
            of = _DRAWS
        if of is not None:
            item.add_marker(pytest.mark.full(of))
        marker = item.get_closest_marker("full")
        if marker is not None and not marker.args:
            raise pytest.UsageError(f"{item.nodeid}: `full` needs words that say what the test is of")


def is_short(config: pytest.Config) -> bool:
    """Whether this run is `make test`."""
    return "not full" in config.getoption("markexpr")


def skip_if_late(item: pytest.Item) -> None:
    """Skip what bears the marker if CI would end before it, on a machine at half its usual speed."""
    marker = item.get_closest_marker("full")
    if marker is None or marker.args[0] in _NEVER_SKIPPED:
        return
    if time.time() > float(os.environ.get("SUITE_FULL_UNTIL", "inf")):
        pytest.skip(f"this machine is too slow for all tests; `make test-full` runs {marker.args[0]}, however long")


def count_left_out(items: Sequence[pytest.Item]) -> None:
    """Count what was deselected because it bears the marker."""
    if items and is_short(items[0].config):
        markers = [item.get_closest_marker("full") for item in items]
        _left_out.update(marker.args[0] for marker in markers if marker is not None)


def hand_over(config: pytest.Config) -> None:
    """A worker of pytest-xdist tells the process that reports."""
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = dict(_left_out)


def take_over(node: Any) -> None:  # noqa: ANN401 - a worker of pytest-xdist
    """Each worker collects, and leaves out, the same."""
    for words, number in getattr(node, "workeroutput", {}).get("left_out", {}).items():
        _left_out[words] = number


def say(reporter: pytest.TerminalReporter) -> None:
    """One line of what was left out; the closing line counts it as deselected."""
    if not _left_out:
        return
    if "deselected" not in reporter.stats:
        reporter.stats["deselected"] = [SimpleNamespace(words=words) for words in _left_out.elements()]
    parts = ", ".join(f"{words} ({number})" for words, number in _left_out.most_common())
    reporter.ensure_newline()
    reporter.write_line(f"{_left_out.total()} tests left to `make test-full`: {parts}")
