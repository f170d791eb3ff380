"""What a service tells of itself: its probes and its metrics."""

import re

from tests.klamm import Process


def status(service: Process, path: str) -> int:
    return service.http.get(path).status_code


def verbose(service: Process) -> str:
    """Every check of the readiness probe, a line each."""
    return service.http.get("/readyz?verbose").text


def metric(service: Process, name: str) -> float:
    """The value of a metric without labels."""
    found = re.search(rf"^klamm_{name} (\S+)$", service.http.get("/metrics").text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])
