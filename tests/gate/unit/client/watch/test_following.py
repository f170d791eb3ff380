"""A watcher whose stream breaks, is refused or is nonsense: it goes on where it was, or says why it can't."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

from app.client.http.access import Access
from app.client.http.exchange import Exchange
from app.client.http.replies import ServiceError
from app.client.http.service import Service
from app.client.watch import following as following_module
from app.client.watch.following import WatchRun
from tests.scripted_server import Answer, ScriptedServer, Step, hang_up, problem

EPOCH = "5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11"
LATER = "0199f0c2-5d1e-7c3a-9a41-3f6f0b8a2c17"
HASH = "00" * 32


def bookmark(offset: int) -> dict[str, object]:
    return {"type": "bookmark", "token": f"{EPOCH}:{offset}", "hash": HASH, "digest": HASH, "age_ms": 1}


def snapshot(offset: int) -> dict[str, object]:
    counts = {"cluster_id": None, "acl_count": 0, "config_count": 0}
    return {"type": "snapshot", "token": f"{EPOCH}:{offset}", "hash": HASH, "digest": HASH, **counts}


def synced(offset: int) -> dict[str, object]:
    return {**bookmark(offset), "type": "synced"}


def end(offset: int | None) -> dict[str, object]:
    return {"type": "end", "token": None if offset is None else f"{EPOCH}:{offset}", "reason": "draining"}


def stream(*events: dict[str, object]) -> Answer:
    return Answer(
        body=b"".join(json.dumps(each).encode() + b"\n" for each in events), media_type="application/x-ndjson"
    )


def torn(*events: dict[str, object]) -> Step:
    """Breaks off in the midst of an event."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("content-length", "100000")
        request.end_headers()
        request.wfile.write(stream(*events).body + b'{"type": "bookm')
        hang_up(request)

    return answer


STOP = problem(400, "INVALID_REQUEST", "the script is over")


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    clock = iter(range(0, 10_000, 1))
    monkeypatch.setattr(following_module, "time", SimpleNamespace(sleep=found.append, monotonic=lambda: next(clock)))
    return found


class Watch:
    def __init__(self, *script: Step, after: str | None = None, snapshot: bool = False, query: str = "") -> None:
        self.told: list[str] = []
        self.events: list[str] = []
        with ScriptedServer(*script) as server, Service(Access(server.url, "User:a", timeout_s=5.0)) as service:
            self.following = WatchRun(
                service,
                {"principal": query} if query else {},
                self.told.append,
                after=after,
                snapshot=snapshot,
                patience_s=20,
            )
            with pytest.raises(ServiceError) as stopped:
                self.events += self._types(self.following.events())
            self.error = stopped.value
            self.headers = [each.headers for each in server.seen]
            queries = [parse_qs(urlsplit(each.path).query) for each in server.seen]
            self.asked = [{name: value for name, (value,) in each.items() if name != "bookmark_ms"} for each in queries]

    def _types(self, events: Iterator[tuple[bytes, object]]) -> Iterator[str]:
        for line, _ in events:
            self.events.append(json.loads(line)["type"])
            yield from ()


def test_it_goes_on_behind_the_last_token_it_has_shown() -> None:
    script = stream(bookmark(1), bookmark(2), end(2)), torn(bookmark(3)), stream(bookmark(4)), STOP
    watch = Watch(*script, after=f"{EPOCH}:1", query="User:a b&c")
    assert [each["after"].rpartition(":")[2] for each in watch.asked] == ["1", "2", "3", "4"]
    assert {each["principal"] for each in watch.asked} == {"User:a b&c"}
    assert watch.events == ["bookmark", "bookmark", "end", "bookmark", "bookmark"]
    assert watch.told[0] == "the service has ended the stream (draining); trying again"
    assert watch.told[1] == "connected again"
    assert watch.following.token == f"{EPOCH}:4"


def test_without_a_token_it_asks_where_the_feed_is_and_shows_what_comes() -> None:
    watch = Watch(stream(snapshot(7), synced(7)), stream(bookmark(8)), STOP)
    assert watch.asked[0] == {"snapshot": "true", "principal": "nobody:"}
    assert watch.asked[1] == {"after": f"{EPOCH}:7"}
    assert watch.events == ["bookmark"]


def test_a_snapshot_that_is_cut_begins_again_and_a_whole_one_never_comes_twice() -> None:
    watch = Watch(
        stream(snapshot(7), end(None)), stream(snapshot(8), synced(8)), stream(bookmark(9)), STOP, snapshot=True
    )
    assert watch.asked == [{"snapshot": "true"}] * 2 + [{"after": f"{EPOCH}:8"}, {"after": f"{EPOCH}:9"}]
    assert watch.events == ["snapshot", "end", "snapshot", "synced", "bookmark"]


def test_what_passes_is_waited_for_with_growing_pauses(slept: list[float]) -> None:
    busy = problem(503, "AUTHORIZER_NOT_READY", "not yet", retriable=True)
    script = stream(bookmark(1)), busy, hang_up, Answer(502, b"<html>", media_type="text/html"), busy, busy, busy, STOP
    watch = Watch(*script, after=f"{EPOCH}:1")
    assert len(watch.told) == 1, "an outage is told once"
    assert sorted(slept[1:]) != []
    assert slept[-1] > 4 * slept[1] > 0
    assert max(slept) <= 5


def test_a_first_connection_is_waited_for_no_longer_than_told() -> None:
    busy = problem(503, "AUTHORIZER_NOT_READY", "not yet", retriable=True)
    watch = Watch(busy, after=f"{EPOCH}:1")
    assert "AUTHORIZER_NOT_READY" in str(watch.error)
    assert 2 < len(watch.asked) < 15


def test_what_the_feed_has_no_more_is_told_with_the_token_that_works() -> None:
    gone = problem(410, "OFFSET_OUT_OF_RANGE", "the records after this token are gone", oldest_token=f"{EPOCH}:5")
    watch = Watch(gone, after=f"{EPOCH}:1")
    assert f"klamm watch --after {EPOCH}:5 shows what is left, --snapshot starts over" in str(watch.error)


def test_it_follows_the_feed_into_the_next_epoch() -> None:
    began = {"type": "epoch", "epoch": LATER, "first_offset": 2}
    script = stream(bookmark(2), began), stream({**bookmark(2), "token": f"{LATER}:2"}), STOP
    watch = Watch(*script, after=f"{EPOCH}:1")
    assert [each["after"] for each in watch.asked] == [f"{EPOCH}:1", f"{LATER}:2", f"{LATER}:2"]
    assert watch.events == ["bookmark", "epoch", "bookmark"]
    assert {each["klamm-epochs"] for each in watch.headers} == {"1"}


@pytest.mark.parametrize("code", ["TOKEN_EPOCH_MISMATCH", "TOKEN_EPOCH_INVALID"])
def test_a_token_that_is_lost_is_told_with_the_way_out(code: str) -> None:
    watch = Watch(stream(bookmark(2)), problem(409, code, "another epoch"), after=f"{EPOCH}:1")
    assert "start over with --snapshot, or without --after for new changes only" in str(watch.error)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_refusals_are_final(status: int) -> None:
    watch = Watch(problem(status, "CLUSTER_AUTHORIZATION_FAILED", "no"), after=f"{EPOCH}:1")
    assert watch.error.status == status
    assert len(watch.asked) == 1


@pytest.mark.parametrize("body", [b"<html>\n", b'{"type": "bookmark"}\n', b"\xff\xfe\n", b"[]\n"])
def test_a_stream_of_something_else_is_told_as_that(body: bytes) -> None:
    watch = Watch(Answer(body=body), after=f"{EPOCH}:1")
    assert "the stream is not from Klamm" in str(watch.error)


def test_events_of_a_later_version_are_passed_over() -> None:
    watch = Watch(stream({"type": "weather", "token": "x"}, bookmark(2)), STOP, after=f"{EPOCH}:1")
    assert watch.events == ["bookmark"]


def test_a_service_that_says_nothing_is_left() -> None:
    def silent(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("content-length", "100")
        request.end_headers()
        request.wfile.flush()
        request.rfile.read(1)

    with ScriptedServer(silent) as server:
        exchange = Exchange(Access(server.url, "User:a"))
        with pytest.raises(ServiceError, match=r"has sent nothing for 0\.2 s") as fault:
            list(exchange.lines("/v1/watch", silence_s=0.2))
        exchange.close()
    assert fault.value.again
