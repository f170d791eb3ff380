"""Decisions and ACLs over a socket: what is allowed, what is written, and how new an answer is."""

import threading

import pytest

from tests.bodies import BODIES, pointers, refusal
from tests.klamm import ADMIN, Json, Process, acl, action, context


def test_an_acl_allows_and_a_deny_overrides_it(service: Process, name: str) -> None:
    assert service.authorize("User:alice", action(name)) == ["DENIED"]
    service.create(acl(name), acl(name, "User:*", "ALL", permission_type="DENY", host="10.66.0.0/16"))
    assert service.authorize("User:alice", action(name), action(name, "WRITE")) == ["ALLOWED", "DENIED"]
    assert service.authorize(context("User:alice", "10.66.1.2"), action(name)) == ["DENIED"]
    assert service.authorize("User:bob", action(name)) == ["DENIED"]
    assert service.authorize(context("User:admin", "10.66.1.2"), action(name)) == ["ALLOWED"]


def test_a_prefix_and_a_group_allow(service: Process, name: str) -> None:
    service.create(acl(name, f"User:{name}", pattern_type="PREFIXED"), acl(f"{name}groups", f"Group:{name}"))
    asked = [action(f"{name}orders"), action(name[:-1])]
    assert service.authorize(f"User:{name}", *asked) == ["ALLOWED", "DENIED"]
    assert service.authorize(context("User:bob", groups=[name]), action(f"{name}groups")) == ["ALLOWED"]
    assert service.authorize("User:bob", action(f"{name}groups")) == ["DENIED"]


def test_any_resource_of_a_type_is_enough(service: Process, name: str) -> None:
    def may(operation: str) -> str:
        body = {"context": context(f"User:{name}"), "operation": operation, "resource_type": "TOPIC"}
        return str(service.post("/v1/authorize-by-resource-type", body)["result"])

    assert may("READ") == "DENIED"
    service.create(acl(name, f"User:{name}"))
    assert (may("READ"), may("WRITE")) == ("ALLOWED", "DENIED")
    service.create(acl(name, f"User:{name}", pattern_type="PREFIXED", permission_type="DENY"))
    assert may("READ") == "DENIED"


def test_operations_and_groups_are_told_by_what_is_allowed(service: Process, name: str) -> None:
    asker = context(f"User:{name}")
    service.create(acl(name, f"User:{name}"), acl(name, f"User:{name}", "DESCRIBE", resource_type="GROUP"))
    resources = [{"resource_type": "TOPIC", "resource_name": each} for each in (name, f"{name}other")]
    told = service.post("/v1/authorized-operations", {"context": asker, "resources": resources})["results"]
    assert [each["code"] for each in told] == ["NONE", "TOPIC_AUTHORIZATION_FAILED"]
    assert told[0]["operations"] == ["READ", "DESCRIBE"]
    groups = service.post("/v1/list-groups", {"context": asker, "groups": [name, f"{name}other"]})
    assert groups["groups"] == [name]


def test_a_batch_is_answered_at_one_offset(service: Process, name: str) -> None:
    pair = [f"{name}a", f"{name}b"]
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            service.create(*map(acl, pair))
            service.delete(*({"resource_name": each} for each in pair))

    writer = threading.Thread(target=change)
    writer.start()
    try:
        seen = {tuple(service.authorize("User:alice", *map(action, pair))) for _ in range(100)}
    finally:
        stop.set()
        writer.join()
    assert seen <= {("ALLOWED", "ALLOWED"), ("DENIED", "DENIED")}


def test_what_is_created_is_found_and_what_is_deleted_is_gone(service: Process, name: str) -> None:
    made = service.create(acl(f"{name}a", owner="orders team"), acl(f"{name}b", "User:bob"), comment="OPS-1")
    assert [each["created"] for each in made["results"]] == [True, True]
    again = service.create(acl(f"{name}a"))["results"]
    assert again == [{**made["results"][0], "created": False}]
    (found,) = service.acls(resource_name=f"{name}a")
    assert (found["id"], found["principal"], found["owner"]) == (again[0]["id"], "User:alice", "orders team")
    assert service.http.get(f"/v1/acls/{found['id']}").json().items() >= found.items()
    gone = service.delete({"resource_name": f"{name}a"}, {"resource_name": f"{name}a"})["results"]
    assert [[each["id"] for each in result["matches"]] for result in gone] == [[found["id"]], [found["id"]]]
    assert service.acls(resource_name=f"{name}a") == []
    assert len(service.acls(resource_name=f"{name}b")) == 1
    assert service.http.get(f"/v1/acls/{found['id']}").status_code == 404
    past = service.post("/v1/history", {"context": ADMIN, "filter": {"resource_name": f"{name}a"}})
    assert len(past["changes"]) == 2, past


def test_a_wrong_entry_hinders_no_neighbour(service: Process, name: str) -> None:
    wrong: list[tuple[Json, str]] = [
        ({"resource_type": "MOON"}, "Invalid resourceType UNKNOWN"),
        ({"principal": "alice"}, "no colon is present"),
        ({"host": "10.0.0.0/33"}, "Value [33] not in range [0,32]"),
    ]
    mixed = [each for fields, _ in wrong for each in (acl("refused", **fields), acl(name))]
    results = service.create(*mixed)["results"]
    assert [each["created"] for each in results] == [False, True, False, False, False, False]
    for (_, words), result in zip(wrong, results[::2], strict=True):
        assert (result["code"], result["error_code"]) == ("INVALID_REQUEST", 42)
        assert words in result["error_message"]
    removed = service.delete({"operation": "FLY"}, {"resource_name": name})["results"]
    assert [(each["error_message"], len(each["matches"])) for each in removed] == [
        ("Unknown entryFilter.", 0),
        (None, 1),
    ]


def test_unknown_words_are_named_by_their_field(service: Process, subtests: pytest.Subtests) -> None:
    asked: list[tuple[str, Json, set[str]]] = [
        ("/v1/authorize", {"actions": [action("a"), action("a", "FLY")]}, {"/actions/1/operation"}),
        (
            "/v1/authorize-by-resource-type",
            {"operation": "FLY", "resource_type": "MOON"},
            {"/operation", "/resource_type"},
        ),
        ("/v1/acls/search", {"filter": {"pattern_type": "NEVER"}}, {"/filter/pattern_type"}),
    ]
    for path, change, named in asked:
        with subtests.test(path=path):
            reply = service.http.post(path, json={**BODIES[path], **change})
            assert pointers(refusal(reply, 400, "INVALID_REQUEST")) == named


def test_the_answer_is_as_new_as_the_token(service: Process, name: str) -> None:
    for n in range(20):
        host = f"10.1.2.{n}"
        made = service.create(acl(name, "User:bob", host=host))
        about = {"principal": "User:bob", "client_address": host}
        body = {"context": context(), "actions": [action(name)], "about": about, "at_least": made["token"]}
        reply = service.post("/v1/explain", body)
        assert reply["results"][0]["result"] == "ALLOWED"
        assert reply["results"][0]["acl"]["id"] == made["results"][0]["id"]
    epoch = made["token"].partition(":")[0]
    body = {"context": context(), "actions": [action(name)]}
    far = {**body, "at_least": f"{epoch}:999999999"}
    refusal(service.http.post("/v1/explain", json=far), 503, "OFFSET_NOT_AVAILABLE")
    other = {**body, "at_least": f"{'0' * 8}-{'0' * 4}-{'0' * 4}-{'0' * 4}-{'0' * 12}:1"}
    refusal(service.http.post("/v1/explain", json=other), 409, "TOKEN_EPOCH_MISMATCH")


def test_of_guarded_writers_at_once_exactly_one_wins(service: Process, name: str) -> None:
    token = service.create(acl(name))["token"]
    statuses: list[int] = []

    def write(number: int) -> None:
        body = {"context": ADMIN, "bindings": [acl(f"{name}{number}")], "if_unchanged_since": token}
        statuses.append(service.http.post("/v1/acls", json=body).status_code)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert sorted(statuses) == [200, 412, 412, 412]
    assert sum(len(service.acls(resource_name=f"{name}{number}")) for number in range(4)) == 1
