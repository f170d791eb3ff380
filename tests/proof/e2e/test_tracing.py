"""Spans of a real service, as a collector gets them."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.callers import Corp, write_configuration
from tests.collector import Collector, KeptSpan
from tests.klamm import action, context, over_socket
from tests.planted import plant

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def variables(collector: Collector) -> dict[str, str]:
    """What makes a service send its spans there."""
    credentials = plant("Bearer-of-the-collector")
    return {
        "KLAMM_OTEL_ENABLED": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-api-key={credentials}",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


def of_operation(spans: list[KeptSpan], operation: str) -> list[KeptSpan]:
    return [span for span in spans if span.attributes.get("klamm.operation") == operation]


def test_each_request_becomes_a_span(collector: Collector, tmp_path: Path, migrated_database_url: str) -> None:
    tokens = write_configuration(tmp_path, Corp())
    headers = {"authorization": f"Bearer {tokens['anyone']}", "traceparent": f"00-{TRACE}-{PARENT}-01"}
    asked = {"context": context("User:alice"), "actions": [action("secret-topic")]}
    with over_socket(
        settings={**variables(collector), "KLAMM_DATABASE_URL": migrated_database_url}, folder=tmp_path
    ) as service:
        service.ready()
        answer = service.http.post("/v1/authorize", json=asked, headers=headers)
        assert answer.json()["results"] == ["DENIED"]
        assert answer.headers["traceparent"] == f"00-{TRACE}-{PARENT}-01"
        alone = service.http.post("/v1/authorize", json=asked, headers={"authorization": headers["authorization"]})
        missing = service.http.get(f"/v1/acls/{'0' * 8}-0000-0000-0000-{'0' * 12}", headers=headers)
        nowhere = service.http.get("/nowhere/User:alice", headers=headers)
        # What is left at the end has two seconds to leave.
        spans = collector.spans(4)
        assert service.stop() == 0
    [first, second] = of_operation(spans, "authorize")
    assert (first.name, first.trace_id, first.parent_id) == ("authorize", TRACE, PARENT)
    assert first.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/authorize",
        "http.response.status_code": 200,
        "klamm.operation": "authorize",
        "klamm.caller": "anyone",
    }
    assert alone.headers["traceparent"] == f"00-{second.trace_id}-{second.span_id}-01"
    [found] = of_operation(spans, "getAcl")
    assert (found.name, found.attributes["http.route"]) == ("getAcl", "/v1/acls/{id}")
    assert found.attributes["http.response.status_code"] == missing.status_code
    [lost] = [span for span in spans if span.attributes["http.response.status_code"] == nowhere.status_code == 404][-1:]
    assert "http.route" not in lost.attributes
    told = b"".join(collector.bodies)
    for word in (b"alice", b"secret-topic", tokens["anyone"].encode(), b"cookie"):
        assert word not in told


def test_a_collector_that_hangs_delays_no_reply_and_the_end_by_two_seconds(
    collector: Collector, migrated_database_url: str
) -> None:
    collector.answering.clear()
    with over_socket(settings={**variables(collector), "KLAMM_DATABASE_URL": migrated_database_url}) as service:
        service.ready()
        for _ in range(200):
            assert service.authorize("User:alice", action("orders")) == ["DENIED"]
        began = time.monotonic()
        assert service.stop() == 0
    assert time.monotonic() - began < 20


def test_workers_have_spans_of_their_own(collector: Collector, tmp_path: Path) -> None:
    folder = ["--data-dir", str(tmp_path / "data"), "--workers", "2"]
    with over_socket(*folder, settings=variables(collector)) as service:
        service.ready()
        for _ in range(20):
            httpx.get(f"{service.url}/v1/acls/count", timeout=30)
        assert len(of_operation(collector.spans(20), "aclCount")) == 20
        assert service.stop() == 0


def test_without_the_setting_nothing_is_sent(collector: Collector, migrated_database_url: str) -> None:
    off = {**variables(collector), "KLAMM_OTEL_ENABLED": "false", "FASTAPI_OTEL_AUTO_CONFIGURE": "true"}
    off["KLAMM_DATABASE_URL"] = migrated_database_url
    with over_socket(settings=off) as service:
        service.ready().authorize("User:alice", action("orders"))
        service.http.get("/v1/acls/count")
        assert service.stop() == 0
    assert collector.spans(0) == []
    assert collector.bodies == []
