"""What a service tells of itself in its probes."""

from tests.klamm import Process


def status(service: Process, path: str) -> int:
    return service.http.get(path).status_code


def verbose(service: Process) -> str:
    """Every check of the readiness probe, a line each."""
    return service.http.get("/readyz?verbose").text
