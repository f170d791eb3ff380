"""What else a service says over a socket: documents, probes, metrics, the decision log, a follower, and its end."""

import json

from tests.gate.e2e.conftest import Guarded
from tests.klamm import ROOT, Json, Process, acl, action, context, wait_until
from tests.watching import Stream


def test_it_serves_its_document_and_its_pages(service: Process) -> None:
    assert service.http.get("/openapi.json").json() == json.loads((ROOT / "openapi.json").read_text())
    for path in ("/", "/docs", "/console"):
        reply = service.http.get(path, headers={"accept": "text/html"})
        assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8"), path


def test_probes_say_that_it_is_ready(service: Process) -> None:
    paths = ("/livez", "/readyz", "/startupz", "/readyz/CLIENT")
    assert [service.http.get(path).status_code for path in paths] == [200] * len(paths)
    assert "[+]" in service.http.get("/readyz?verbose").text
    assert service.http.get("/readyz/nothing/like/it").status_code == 404


def test_a_broker_that_starts_is_told_that_its_listeners_are_ready(service: Process) -> None:
    endpoint = {"listener_name": "CLIENT", "security_protocol": "SSL", "host": "broker-1", "port": 9092}
    started = service.post("/v1/start", {"broker_id": 1, "endpoints": [endpoint]})
    assert started["listeners"] == [{"listener_name": "CLIENT", "ready": True}]


def test_what_is_asked_and_written_is_counted(service: Process, name: str) -> None:
    before = service.metric("klamm_acl_count")
    made = service.create(acl(f"{name}a"), acl(f"{name}b"))
    service.authorize("User:alice", action(f"{name}a"), at_least=made["token"])
    assert service.metric("klamm_acl_count") == before + 2
    assert before + 2 in service.http.get("/v1/acls/count").json().values()
    decided = 'klamm_decisions_total{result="ALLOWED"'
    assert decided in service.http.get("/metrics").text


def test_each_decision_is_a_line_of_the_decision_log(guarded: Guarded, name: str) -> None:
    root = {"authorization": f"Bearer {guarded.tokens['root']}"}
    made = guarded.service.http.post("/v1/acls", json={"context": context(), "bindings": [acl(name)]}, headers=root)
    body: Json = {"context": context("User:alice"), "actions": [action(name), action(name, "WRITE")]}
    asker = {"authorization": f"Bearer {guarded.tokens['anyone']}"}
    answer = guarded.service.http.post("/v1/authorize", json={**body, "at_least": made.json()["token"]}, headers=asker)
    assert answer.json()["results"] == ["ALLOWED", "DENIED"]
    wait_until(lambda: len(decisions(guarded, name)) == 2, "both are in the log")
    allowed, denied = sorted(decisions(guarded, name), key=lambda line: str(line["operation"]))
    assert (allowed["result"], allowed["rule"], allowed["acl_id"]) == (
        "ALLOWED",
        "MatchingAcl",
        made.json()["results"][0]["id"],
    )
    assert (denied["result"], denied["rule"], denied["acl_id"]) == ("DENIED", "DefaultDeny", None)
    assert f"{allowed['epoch']}:{allowed['offset']}" == answer.json()["token"]


def decisions(guarded: Guarded, name: str) -> list[Json]:
    """The lines about this resource, of the file that is being written too."""
    texts = [path.read_text() for path in (guarded.folder / "decisions").glob("*decisions-*.jsonl")]
    lines = [json.loads(line) for text in texts for line in text.splitlines() if line.endswith("}")]
    return [line for line in lines if line["resource_name"] == name]


def test_a_follower_answers_by_the_token_of_whom_it_follows(service: Process, follower: Process, name: str) -> None:
    made = service.create(acl(name))
    assert follower.authorize("User:alice", action(name), at_least=made["token"]) == ["ALLOWED"]
    gone = follower.delete({"resource_name": name})
    assert [each["id"] for each in gone["results"][0]["matches"]] == [made["results"][0]["id"]]
    for each in (follower, service):
        assert each.authorize("User:alice", action(name), at_least=gone["token"]) == ["DENIED"]


def test_the_watch_stream_of_a_follower_is_that_of_its_upstream(service: Process, follower: Process, name: str) -> None:
    before = str(service.create(acl(name))["token"])
    last = [str(follower.create(acl(f"{name}{number}"))["token"]) for number in range(5)][-1]
    with Stream(follower.url, f"after={before}") as read, Stream(service.url, f"after={before}") as told:
        read.until(last)
        told.until(last)
        assert read.seen.records == told.seen.records
        assert len(read.seen.records) == 5


def test_a_follower_refuses_in_the_words_of_its_upstream(service: Process, follower: Process, name: str) -> None:
    stale = service.create(acl(name))["token"]
    service.delete({"resource_name": name})
    asked: list[tuple[int, Json]] = [
        (412, {"context": context(), "bindings": [acl(name)], "if_unchanged_since": stale}),
        (403, {"context": context("User:nobody"), "bindings": [acl(name)]}),
    ]
    for status, body in asked:
        codes = [each.post("/v1/acls", body, status)["code"] for each in (service, follower)]
        assert codes[0] == codes[1]


def test_sigterm_ends_it_with_0(own: Process) -> None:
    own.create(acl("orders"))
    assert own.stop() == 0
    assert not [line for line in own.lines if "Traceback" in line]
