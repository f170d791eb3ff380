"""The watch stream over a real socket: NDJSON and server-sent events, rights, a drain, a client that doesn't read."""

import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import httpx
import pytest

from app.core.records import AccessControlEntryRecord
from app.rest.callers.token_file import add_token
from tests.klamm import Process, acl, over_socket, wait_until
from tests.planted import plant
from tests.watching import Folded

WATCH = "/v1/watch"


class Stream:
    """A stream that a thread folds."""

    def __init__(self, url: str, query: str, headers: dict[str, str] | None = None) -> None:
        self.seen = Folded()
        self.fault: BaseException | None = None
        self._client = httpx.Client(base_url=url, timeout=60, headers={"klamm-epochs": "1", **(headers or {})})
        self._query = query
        self._socket: socket.socket | None = None
        self._has_left = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self._is_read():
                pass
        except BaseException as fault:  # noqa: BLE001 - the test looks at it
            self.fault = fault

    def _is_read(self) -> bool:
        """False for a busy machine's answer, after which a client asks again."""
        with self._client.stream("GET", f"{WATCH}?{self._query}") as reply:
            if reply.status_code == httpx.codes.TOO_MANY_REQUESTS:
                time.sleep(int(reply.headers["retry-after"]))
                return False
            assert reply.status_code == httpx.codes.OK, reply.read()
            assert reply.headers["content-type"] == "application/x-ndjson"
            self._socket = reply.extensions["network_stream"].get_extra_info("socket")
            for line in reply.iter_lines():
                if self._has_left:
                    break
                self.seen.take_lines([line.encode()])
            return True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closed under the thread that polls it, the descriptor would soon be another connection's, and this one open.
        self._has_left = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._client.close()

    def until(self, token: str) -> None:
        wait_until(lambda: self.seen.token == token or self.fault is not None, f"the reader sees {token}")
        assert self.fault is None, self.fault

    def ended(self) -> str | None:
        self._thread.join(60)
        return self.seen.ended


def search() -> dict[str, object]:
    return {"context": {"principal": "User:admin", "client_address": "127.0.0.1"}, "filter": {}}


def token_of(service: Process) -> str:
    return str(service.post("/v1/acls/search", search())["token"])


def test_readers_see_the_whole_state_and_every_change(service: Process) -> None:
    service.create(acl("orders"))
    with Stream(service.url, "snapshot=true") as one, Stream(service.url, f"after={token_of(service)}") as other:
        service.create(acl("payments"), acl("refunds"))
        service.delete({"resource_name": "orders"})
        one.until(token_of(service))
        other.until(token_of(service))
        assert {each.binding.resource_name for each in one.seen.acls.values()} >= {"payments", "refunds"}
        assert "orders" not in {each.binding.resource_name for each in one.seen.acls.values()}
        assert one.seen.hash == other.seen.hash


def test_a_browser_gets_server_sent_events_and_goes_on_where_it_was(service: Process) -> None:
    # The first write of a process begins an epoch; this test is about what follows.
    before = str(service.create(acl("before-a-browser"))["token"])
    service.create(acl("seen-by-a-browser"))
    after = token_of(service)
    events = []
    headers = {"accept": "text/event-stream", "last-event-id": before}
    with httpx.stream("GET", f"{service.url}{WATCH}?snapshot=true", headers=headers, timeout=60) as reply:
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.headers["cache-control"] == "no-store"
        for line in reply.iter_lines():
            events.append(line)
            if line == "" and len(events) > 4:
                break
    assert events[:2] == [f"id: {after}", "event: transaction"]
    assert json.loads(events[2].removeprefix("data: "))["records"][0]["acl"]["resource_name"] == "seen-by-a-browser"
    assert events[3] == ""


def test_a_browser_that_waits_gets_each_change_whole_and_in_order(service: Process) -> None:
    tokens = [token_of(service)]
    seen = Folded()
    query = f"after={tokens[0]}&bookmark_ms=200"
    headers = {"accept": "text/event-stream"}
    with httpx.stream("GET", f"{service.url}{WATCH}?{query}", headers=headers, timeout=60) as reply:
        for event in events_of(reply):
            assert list(event) == ["id", "event", "data"]
            assert event["event"] == json.loads(event["data"])["type"]
            seen.take_lines([event["data"].encode()])
            assert seen.token == event["id"]
            if event["event"] == "transaction":
                assert seen.token == tokens[-1]
            elif seen.token == tokens[-1] and len(tokens) > 8:
                break
            elif seen.token == tokens[-1]:
                # It waits now, at the head. The bookmarks take longer than its credentials hold without a look.
                bindings = [acl(f"waits-{len(tokens)}-{at}") for at in range(3)]
                tokens.append(str(service.create(*bindings)["token"]))
    names = [each.acl.binding.resource_name for each in seen.records if isinstance(each, AccessControlEntryRecord)]
    assert names == [f"waits-{change}-{at}" for change in range(1, 9) for at in range(3)]


def events_of(reply: httpx.Response) -> Iterator[dict[str, str]]:
    event: dict[str, str] = {}
    for line in reply.iter_lines():
        name, _, value = line.partition(": ")
        if line:
            event[name] = value
        else:
            yield event
            event = {}


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "`after` is missing; send it with a token, or `snapshot=true`"),
        ("after=x", 400, "`after` is not a token"),
        ("after=3f6f0b8a-5d1e-4c3a-9a41-0199f0c22c17:1", 409, "`after` is not a part of"),
        ("snapshot=true&after=x", 400, "send one of them"),
        ("snapshot=maybe", 400, "query parameter `snapshot`: `maybe` can't be used; send true or false"),
        ("snapshot=true&bookmark_ms=1", 400, "query parameter `bookmark_ms`: `1` can't be used; send 200 or more"),
        ("snapshot=true&bookmark_ms=9999", 400, "send 5000 or less"),
        ("snapshot=true&bookmark_ms=x", 400, "`x` can't be used; send a whole number"),
        ("snapshot=true&principle=User:bob", 400, "`principle`: there is no such parameter; leave it out, or send one"),
        ("snapshot=true&principle=User:bob", 400, "did you mean principal?"),
        ("snapshot=true&snapshot=true", 400, "more than once"),
        ("snapshot=true&resource_type=topic", 400, "`resource_type`"),
        ("snapshot=true&resource_type=UNKNOWN", 400, "Unknown patternFilter"),
    ],
)
def test_bad_questions_are_refused_before_the_first_byte(patient: Process, query: str, status: int, words: str) -> None:
    reply = httpx.get(f"{patient.url}{WATCH}?{query}", timeout=60)
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json"), reply.text
    assert words in reply.json()["detail"]


def test_a_client_that_leaves_gives_its_place_back(service: Process) -> None:
    token = token_of(service)
    query = f"after={token}&bookmark_ms=200"
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(Stream(service.url, query)) for _ in range(5)]
        for each in readers:
            each.until(token)
        assert [each.seen.ended for each in readers] == [None] * 5
        wait_until(lambda: service.metric("klamm_watch_readers") == len(readers), "all are counted")
    wait_until(lambda: service.metric("klamm_watch_readers") == 0, "all have gone")
    in_flight = 'klamm_admission_requests{pool="watchers",state="in_flight"}'
    wait_until(lambda: service.metric(in_flight) == 0, "their places are free")


def test_a_client_that_does_not_read_is_cut(service: Process) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.sendall(b"GET /v1/watch?snapshot=true HTTP/1.1\r\nhost: localhost\r\n\r\n")
        wait_until(lambda: service.metric("klamm_watch_readers") == 1, "it is there")
        for number in range(80):
            service.create(*(acl(f"{number}-{at}-{'x' * 4_000}") for at in range(50)))
        wait_until(lambda: service.metric("klamm_watch_readers") == 0, "it was cut")


def test_a_client_that_pauses_gets_everything_once(service: Process) -> None:
    token, seen = token_of(service), Folded()
    little = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)])
    with (
        httpx.Client(base_url=service.url, transport=little, timeout=60) as client,
        client.stream("GET", f"{WATCH}?after={token}&bookmark_ms=200", headers={"klamm-epochs": "1"}) as reply,
    ):
        for number in range(10):
            token = str(service.create(*(acl(f"pause-{number}-{at}-{'x' * 200}") for at in range(50)))["token"])
        for line in reply.iter_lines():
            seen.take_lines([line.encode()])
            if seen.token == token:
                break
    assert len(seen.records) == 500


@pytest.fixture
def guarded(tmp_path: Path, migrated_database_url: str) -> Iterator[tuple[Process, dict[str, str]]]:
    (tmp_path / "klamm.toml").write_text(
        'tokens.file = "klamm.tokens"\n[callers.sidecar]\nrole = "follow"\n[callers.app]\nrole = "decide"\n'
        'principals = ["User:*"]\n[callers.root]\nrole = "admin"\nprincipal = "User:admin"\n'
        '[callers.weak]\nrole = "admin"\nprincipal = "User:weak"\n[callers.prometheus]\nrole = "observe"\n'
    )
    names = ("sidecar", "app", "root", "weak", "prometheus")
    tokens = {name: plant(add_token(tmp_path / "klamm.tokens", name, names)) for name in names}
    with over_socket(settings={"KLAMM_DATABASE_URL": migrated_database_url}, folder=tmp_path) as service:
        service.ready()
        yield service, {name: f"Bearer {token}" for name, token in tokens.items()}


def test_who_may_watch_and_until_when(guarded: tuple[Process, dict[str, str]], tmp_path: Path) -> None:
    service, shown = guarded
    statuses = {
        name: httpx.get(f"{service.url}{WATCH}?after=x", headers={"authorization": token}, timeout=60).status_code
        for name, token in shown.items()
    }
    # 400 is a token that is none, which is looked at after the rights of the role.
    assert statuses == {"sidecar": 400, "app": 403, "root": 400, "weak": 400, "prometheus": 403}
    assert httpx.get(f"{service.url}{WATCH}?snapshot=true", timeout=60).status_code == httpx.codes.UNAUTHORIZED
    weak = {"authorization": shown["weak"]}
    refused = httpx.get(f"{service.url}{WATCH}?snapshot=true", headers=weak, timeout=60)
    assert (refused.status_code, refused.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")

    root = {"authorization": shown["root"]}
    body: dict[str, object] = {"context": {"principal": "User:admin", "client_address": "127.0.0.1"}}
    for right in ("DESCRIBE", "DESCRIBE_CONFIGS"):
        # The feed has ACLs and properties, so either right alone is too little.
        refused = httpx.get(f"{service.url}{WATCH}?snapshot=true", headers=weak, timeout=60)
        assert (refused.status_code, refused.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
        body["bindings"] = [acl("kafka-cluster", "User:weak", right, resource_type="CLUSTER")]
        made = httpx.post(f"{service.url}/v1/acls", json=body, headers=root, timeout=60)
        assert made.status_code == httpx.codes.OK
    sidecar = {"authorization": shown["sidecar"]}
    with (
        Stream(service.url, "snapshot=true&bookmark_ms=200", weak) as by_right,
        Stream(service.url, "snapshot=true&bookmark_ms=200", sidecar) as by_role,
    ):
        wait_until(lambda: None not in (by_right.seen.token, by_role.seen.token), "both are there")
        taken = {"context": body["context"], "filters": [{"principal": "User:weak", "operation": "DESCRIBE_CONFIGS"}]}
        gone = httpx.post(f"{service.url}/v1/acls/delete", json=taken, headers=root, timeout=60)
        assert gone.status_code == httpx.codes.OK
        assert by_right.ended() == "caller"
        wait_until(lambda: by_role.seen.token == gone.json()["token"], "the change")
        assert by_right.seen.token != gone.json()["token"], "a change was shown after the right was gone"
        lines = (tmp_path / "klamm.tokens").read_text().splitlines(keepends=True)
        (tmp_path / "klamm.tokens").write_text("".join(each for each in lines if not each.startswith("sidecar")))
        while by_role.seen.ended is None and by_role.fault is None:
            # Its credentials are looked at also while changes come without an end.
            assert (
                httpx.post(f"{service.url}/v1/acls", json=body, headers=root, timeout=60).status_code == httpx.codes.OK
            )
            body["bindings"] = [acl(f"while-revoked-{time.monotonic_ns()}")]
        assert by_role.ended() == "caller"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_drain_ends_the_streams_with_their_token(migrated_database_url: str, workers: str) -> None:
    variables = {"KLAMM_DRAIN_MS": "300000", "KLAMM_DATABASE_URL": migrated_database_url}
    with over_socket("--workers", workers, settings=variables) as service:
        service.ready()
        service.create(acl("orders"))
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(Stream(service.url, "snapshot=true")) for _ in range(6)]
            for each in streams:
                each.until(token_of(service))
            service.process.send_signal(signal.SIGTERM)
            assert {each.ended() for each in streams} == {"draining"}
            assert len({each.seen.token for each in streams}) == 1
        service.process.send_signal(signal.SIGTERM)
