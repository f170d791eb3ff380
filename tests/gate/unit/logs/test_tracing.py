"""Spans of requests: what they are called, what they carry, whose children they are."""

import logging
import threading
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace

import pytest

from app.formats.command_errors import UsageError
from app.logs.redaction import redacted, reveal_all
from app.logs.service import REQUEST_MARK, RequestMark
from app.logs.tracing import Message, Receive, Scope, Send, TracedRequests, Tracing
from tests.collector import Collector

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SERVER = 2
ERROR = 2
ROUTES = {"/v1/authorize": "authorize", "/v1/configs": "alterConfigs", "/v1/acls/{id}": "getAcl"}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Where the variables say that spans go."""
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector
    # Their retries draw random numbers, which Hypothesis takes for those of the test that runs then.
    for thread in threading.enumerate():
        if thread.name.startswith(("Otel", "klamm-otel")):
            thread.join(30)
    reveal_all()


@pytest.fixture
async def tracing(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tracing]:
    """Closed at the latest by the test's end."""
    monkeypatch.setattr("app.logs.tracing.SHUTDOWN_TIMEOUT_S", 30.0)
    assert collector.url
    tracing = Tracing("1.2.3")
    yield tracing
    await tracing.close()


async def ask(
    tracing: Tracing, path: str, *, status: int = 200, mark: RequestMark | None = None, **scope: object
) -> None:
    """Put one request to an application that answers with this status."""

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        found = "/v1/acls/{id}" if path.startswith("/v1/acls/") else path
        if found in ROUTES and "route" not in scope:
            # As the router does.
            scope["route"] = SimpleNamespace(name=ROUTES[found], path_format=found)
        current = REQUEST_MARK.get()
        if current is not None:
            current.caller = "billing"
        if status == 0:
            raise RuntimeError("User:alice and her secret")
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(_: Message) -> None:
        pass

    async def receive() -> Message:
        raise AssertionError("nobody asks")

    request: Scope = {"type": "http", "method": "POST", "path": path, "headers": [], **scope}
    token = REQUEST_MARK.set(mark)
    try:
        await TracedRequests(app, tracing)(request, receive, send)
    finally:
        REQUEST_MARK.reset(token)


async def test_a_request_is_a_span_with_its_operation(tracing: Tracing, collector: Collector) -> None:
    mark = RequestMark("abc")
    await ask(
        tracing, "/v1/authorize", mark=mark, headers=[(b"authorization", b"Bearer s3cr3t"), (b"x", b"User:alice")]
    )
    await tracing.close()
    [span] = collector.spans(1)
    assert (span.name, span.kind, span.parent_id, span.status) == ("authorize", SERVER, "", 0)
    assert span.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/authorize",
        "http.response.status_code": 200,
        "klamm.operation": "authorize",
        "klamm.caller": "billing",
    }
    assert (span.resource["service.name"], span.resource["service.version"]) == ("klamm", "1.2.3")
    assert mark.traceparent == f"00-{span.trace_id}-{span.span_id}-01"
    assert not [body for body in collector.bodies if b"s3cr3t" in body or b"alice" in body]


async def test_a_route_of_the_framework_is_named_by_itself(tracing: Tracing, collector: Collector) -> None:
    await ask(tracing, "/v1/acls/123", method="GET")
    await tracing.close()
    [span] = collector.spans(1)
    assert (span.name, span.attributes["http.route"]) == ("getAcl", "/v1/acls/{id}")
    assert span.attributes["klamm.operation"] == "getAcl"
    assert "klamm.caller" not in span.attributes


async def test_two_methods_of_one_path_are_two_operations(tracing: Tracing, collector: Collector) -> None:
    route = SimpleNamespace(name="describeConfigs", path_format="/v1/configs")
    await ask(tracing, "/v1/configs", method="GET", route=route)
    await ask(tracing, "/v1/configs", method="POST")
    await tracing.close()
    assert [span.name for span in collector.spans(2)] == ["describeConfigs", "alterConfigs"]


async def test_probes_and_the_metrics_page_make_no_spans(tracing: Tracing, collector: Collector) -> None:
    mark = RequestMark("abc")
    for path in ("/livez", "/readyz", "/readyz/CLIENT", "/startupz", "/metrics"):
        await ask(tracing, path, method="GET", mark=mark)
    await ask(tracing, "/livez2", method="GET")
    await tracing.close()
    assert [span.name for span in collector.spans(1)] == ["GET"]
    assert mark.traceparent is None


async def test_a_path_that_leads_nowhere_names_no_span(tracing: Tracing, collector: Collector) -> None:
    await ask(tracing, "/wp-admin/User:alice", status=404, method="BREW")
    await tracing.close()
    [span] = collector.spans(1)
    assert (span.name, span.status) == ("_OTHER", 0)
    assert span.attributes == {"http.request.method": "_OTHER", "http.response.status_code": 404}
    assert b"alice" not in b"".join(collector.bodies)


async def test_a_request_within_a_trace_is_its_callers_child(tracing: Tracing, collector: Collector) -> None:
    mark = RequestMark("abc", f"00-{TRACE}-{PARENT}-01")
    await ask(tracing, "/v1/authorize", mark=mark, headers=[(b"tracestate", b"a=1"), (b"tracestate", b"b=2")])
    await tracing.close()
    [span] = collector.spans(1)
    assert (span.trace_id, span.parent_id, span.trace_state) == (TRACE, PARENT, "a=1,b=2")
    assert mark.traceparent == f"00-{TRACE}-{PARENT}-01"


async def test_a_trace_that_nobody_samples_is_not_exported(tracing: Tracing, collector: Collector) -> None:
    await ask(tracing, "/v1/authorize", mark=RequestMark("a", f"00-{TRACE}-{PARENT}-00"))
    await ask(tracing, "/v1/authorize", mark=RequestMark("b", f"00-{'1' * 32}-{PARENT}-01"))
    await tracing.close()
    assert [span.trace_id for span in collector.spans(1)] == ["1" * 32]


async def test_each_trace_that_begins_here_is_another(tracing: Tracing, collector: Collector) -> None:
    for _ in range(3):
        await ask(tracing, "/v1/authorize")
    await tracing.close()
    assert len({span.trace_id for span in collector.spans(3)}) == 3


@pytest.mark.parametrize(("status", "told"), [(503, 503), (0, 500)])
async def test_a_fault_is_a_fault(tracing: Tracing, collector: Collector, status: int, told: int) -> None:
    try:
        await ask(tracing, "/v1/authorize", status=status)
    except RuntimeError:
        assert status == 0
    await tracing.close()
    [span] = collector.spans(1)
    assert (span.status, span.attributes["error.type"]) == (ERROR, str(told))
    assert span.attributes["http.response.status_code"] == told
    assert b"alice" not in b"".join(collector.bodies)


async def test_what_is_no_request_goes_through(tracing: Tracing, collector: Collector) -> None:
    with pytest.raises(RuntimeError):
        await ask(tracing, "", status=0, type="lifespan")
    await ask(tracing, "/v1/authorize")
    await tracing.close()
    assert len(collector.spans(1)) == 1


async def test_the_standard_variables_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as other:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{other.url}/v1/traces")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2222,x-tenant=a-tenant-key")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=authorizer,k8s.pod.name=klamm-0")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        tracing = Tracing("1.2.3")
        await ask(tracing, "/v1/authorize")
        await tracing.close()
        [span] = other.spans(1)
        assert (span.resource["service.name"], span.resource["k8s.pod.name"]) == ("authorizer", "klamm-0")
        assert other.headers[0]["authorization"] == "Bearer hunter2222"
    assert redacted("hunter2222 and a-tenant-key") == "*** and ***"
    reveal_all()


async def test_a_variable_that_makes_no_sense_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    with pytest.raises(UsageError, match="OTEL_"):
        Tracing("1.2.3")


async def test_spans_switched_off_by_the_standard_variable_make_no_trace(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    tracing = Tracing("1.2.3")
    mark = RequestMark("abc")
    await ask(tracing, "/v1/authorize", mark=mark)
    await tracing.close()
    assert mark.traceparent is None
    assert collector.spans(0) == []


@pytest.mark.parametrize("name", ["sdk._shared_internal", "exporter.otlp.proto.http.trace_exporter"])
async def test_what_the_exporter_says_again_and_again_is_logged_once_a_minute(
    tracing: Tracing, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    assert tracing.tracer
    logger = logging.getLogger(f"opentelemetry.{name}")
    with caplog.at_level(logging.WARNING):
        for n in range(3):
            logger.warning(f"{name} lost %d", n)  # noqa: G004 - a template of this test's own
            logger.warning(f"{name} lost another")  # noqa: G004 - the same
    assert [record.getMessage() for record in caplog.records] == [f"{name} lost 0", f"{name} lost another"]
