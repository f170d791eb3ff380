"""The watch stream over a socket: NDJSON and server-sent events, from a snapshot, from a token, and from a pause."""

import contextlib
import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from app.core.records import AccessControlEntryRecord
from tests.klamm import Process, acl, wait_until
from tests.watching import WATCH, Folded, Stream, token_of


def test_readers_see_the_whole_state_and_every_change(service: Process, name: str) -> None:
    service.create(acl(f"{name}orders"))
    with Stream(service.url, "snapshot=true") as one, Stream(service.url, f"after={token_of(service)}") as other:
        service.create(acl(f"{name}payments"), acl(f"{name}refunds"))
        service.delete({"resource_name": f"{name}orders"})
        one.until(token_of(service))
        other.until(token_of(service))
        assert {each.binding.resource_name for each in one.seen.acls.values()} >= {f"{name}payments", f"{name}refunds"}
        assert f"{name}orders" not in {each.binding.resource_name for each in one.seen.acls.values()}
        assert one.seen.hash == other.seen.hash


def test_a_browser_gets_server_sent_events_and_goes_on_where_it_was(service: Process, name: str) -> None:
    # The first write of a process begins an epoch; this test is about what follows.
    before = str(service.create(acl(f"{name}before"))["token"])
    service.create(acl(f"{name}seen"))
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
    assert json.loads(events[2].removeprefix("data: "))["records"][0]["acl"]["resource_name"] == f"{name}seen"
    assert events[3] == ""


def test_a_browser_that_waits_gets_each_change_whole_and_in_order(service: Process, name: str) -> None:
    # The first write of a process begins an epoch; this test is about what follows.
    tokens = [str(service.create(acl(name))["token"])]
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
                bindings = [acl(f"{name}{len(tokens)}-{at}") for at in range(3)]
                tokens.append(str(service.create(*bindings)["token"]))
    names = [each.acl.binding.resource_name for each in seen.records if isinstance(each, AccessControlEntryRecord)]
    assert names == [f"{name}{change}-{at}" for change in range(1, 9) for at in range(3)]


def events_of(reply: httpx.Response) -> Iterator[dict[str, str]]:
    event: dict[str, str] = {}
    for line in reply.iter_lines():
        name, _, value = line.partition(": ")
        if line:
            event[name] = value
        else:
            yield event
            event = {}


BAD_QUESTIONS = [
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
]


def test_bad_questions_are_refused_before_the_first_byte(service: Process, subtests: pytest.Subtests) -> None:
    for query, status, words in BAD_QUESTIONS:
        with subtests.test(query=query, words=words):
            reply = service.http.get(f"{WATCH}?{query}")
            assert reply.headers["content-type"] == "application/problem+json", reply.text
            assert reply.status_code == status
            assert words in reply.json()["detail"]


@pytest.mark.usefixtures("follower")
def test_a_client_that_leaves_gives_its_place_back(service: Process) -> None:
    def wait_for(readers: int) -> None:
        in_flight = 'klamm_admission_requests{pool="watchers",state="in_flight"}'
        counted = ("klamm_watch_readers", in_flight)
        wait_until(lambda: [service.metric(each) for each in counted] == [readers] * 2, f"{readers} are counted")

    # The follower is a reader, too; those of other tests may be on their way out.
    wait_for(1)
    token = token_of(service)
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(Stream(service.url, f"after={token}&bookmark_ms=200")) for _ in range(5)]
        for each in readers:
            each.until(token)
        assert [each.seen.ended for each in readers] == [None] * 5
        wait_for(6)
    wait_for(1)


def test_a_client_that_pauses_gets_everything_once(service: Process, name: str) -> None:
    token, seen = str(service.create(acl(name))["token"]), Folded()
    little = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)])
    with (
        httpx.Client(base_url=service.url, transport=little, timeout=60) as client,
        client.stream("GET", f"{WATCH}?after={token}&bookmark_ms=200", headers={"klamm-epochs": "1"}) as reply,
    ):
        for number in range(10):
            token = str(service.create(*(acl(f"{name}{number}-{at}-{'x' * 200}") for at in range(50)))["token"])
        for line in reply.iter_lines():
            seen.take_lines([line.encode()])
            if seen.token == token:
                break
    assert len(seen.records) == 500
