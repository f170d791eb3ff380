"""Three times as much as the service can do, sent by another process whatever comes back."""

import itertools
import json
import time

from tests.bench.flood import Flood, Result, flooding
from tests.bench.load import closed_loop, post, status_of
from tests.bench.processes import cpu_s, rss_bytes
from tests.bench.report import percentile
from tests.klamm import Process, action, context

ACTIONS = 500
FLOOD_S = 6.0
PROBES = ("/livez", "/readyz", "/startupz", "/metrics")


def messages() -> list[bytes]:
    """Batches that take about a millisecond each; a refusal of theirs takes a twentieth of that."""
    actions = [action(f"topic-{at}") for at in range(ACTIONS)]
    body = {"context": context("User:alice"), "actions": actions}
    return [post("/v1/authorize", json.dumps(body, separators=(",", ":")).encode())]


def test_the_excess_is_refused_and_the_rest_is_answered(service: Process) -> None:
    port, pid = int(service.url.rpartition(":")[2]), service.process.pid
    sent = messages()
    # Alone on its connection, no request is one too many.
    used = cpu_s(pid)
    measured = closed_loop(port, itertools.cycle(sent).__next__, 2.0, 1)
    # What it could answer a second with a core for itself.
    capacity = measured.answers / (cpu_s(pid) - used)
    before = rss_bytes(pid)
    probes: list[tuple[str, int | None, float]] = []
    with flooding(Flood(port, pid, sent, 3 * capacity, FLOOD_S, connections=256)) as flood:
        for path in itertools.cycle(PROBES):
            if flood.done():
                break
            began = time.monotonic()
            probes.append((path, status_of(port, path), time.monotonic() - began))
            time.sleep(0.05)
        result = flood.result()
    grown = rss_bytes(pid) / before
    show(result, capacity, grown, [seconds for _, _, seconds in probes])
    assert {each.status for each in result.outcomes} <= {200, 429}
    assert result.unanswered == 0
    assert all(each.has_retry_after == (each.status == 429) for each in result.outcomes)
    assert result.of(200)
    assert result.of(429)
    assert {status for _, status, _ in probes} == {200}
    assert grown < 1.5
    assert service.metric("klamm_requests_shed_total") == len(result.of(429)) + result.refused_before
    assert service.authorize("User:alice", action("orders")) == ["DENIED"]


def show(result: Result, capacity: float, grown: float, probe_s: list[float]) -> None:
    print(
        f"capacity {capacity:.0f}/s, goodput {result.goodput:.0f}/s ({result.goodput / capacity:.0%}), "
        f"{len(result.of(200))} answered, {len(result.of(429))} refused, "
        f"refused after p50 {result.refusal_ms(0.5):.1f} ms, p99 {result.refusal_ms(0.99):.1f} ms "
        f"(the server's share {result.refusal_served_ms(0.99):.1f} ms), "
        f"memory {grown:.1%}, probes p99 {percentile(probe_s, 0.99) * 1_000:.0f} ms of {len(probe_s)}"
    )
