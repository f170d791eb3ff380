"""Well-formed requests that can't be meant: refused entry by entry or as a whole, in Kafka's words, and never a 5xx."""

import pytest

from tests.bodies import BODIES, pointers, problem_in, refusal
from tests.klamm import Json, Process, acl, action, context

NO_COLON = (
    "Could not parse principal from `{}` (no colon is present separating the principal type from the principal name)"
)
LONGEST = "x" * 32_767
TOO_LONG = "x" * 32_768

REFUSED_BINDINGS: list[tuple[Json, str]] = [
    ({"resource_type": "TOPICS"}, "Invalid resourceType UNKNOWN"),
    ({"resource_type": "topic"}, "Invalid resourceType UNKNOWN"),
    ({"resource_type": "UNKNOWN"}, "Invalid resourceType UNKNOWN"),
    ({"resource_type": ""}, "Invalid resourceType UNKNOWN"),
    ({"resource_type": "ANY"}, "resourceType must not be ANY"),
    ({"pattern_type": "SUFFIXED"}, "Invalid patternType UNKNOWN"),
    ({"pattern_type": "ANY"}, "patternType must not be ANY"),
    ({"pattern_type": "MATCH"}, "patternType must not be MATCH"),
    ({"operation": "FLY"}, "Invalid operation UNKNOWN"),
    ({"operation": "ANY"}, "operation must not be ANY"),
    ({"permission_type": "MAYBE"}, "Invalid permissionType UNKNOWN"),
    ({"permission_type": "ANY"}, "permissionType must not be ANY"),
    ({"resource_name": ""}, "Invalid empty resource name"),
    ({"resource_type": "CLUSTER"}, "The only valid name for the CLUSTER resource is kafka-cluster"),
    (
        {"resource_type": "CLUSTER", "resource_name": ""},
        "The only valid name for the CLUSTER resource is kafka-cluster",
    ),
    ({"principal": "alice"}, NO_COLON.format("alice")),
    ({"principal": ""}, NO_COLON.format("")),
    ({"host": ""}, "Host pattern cannot be null or empty"),
    ({"host": "10.0.0.0/33"}, "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]"),
    ({"host": "nonsense/8"}, "Invalid CIDR notation 'nonsense/8': Could not parse [nonsense/8]"),
    ({"resource_name": TOO_LONG}, "'resourceName' field is too long to be serialized"),
    ({"resource_name": "ä" * 16_384}, "'resourceName' field is too long to be serialized"),
    ({"principal": f"User:{TOO_LONG}"}, "'principal' field is too long to be serialized"),
    ({"host": TOO_LONG}, "'host' field is too long to be serialized"),
]


def test_each_refused_binding_has_kafkas_text_and_hinders_no_neighbour(patient: Process) -> None:
    good = [acl(f"good-{n}") for n in range(len(REFUSED_BINDINGS) + 1)]
    mixed = [good[0]]
    for (wrong, _), neighbour in zip(REFUSED_BINDINGS, good[1:], strict=True):
        mixed += [acl("orders", **wrong), neighbour]
    results = patient.create(*mixed)["results"]
    assert [result["created"] for result in results] == [n % 2 == 0 for n in range(len(mixed))]
    for (wrong, text), result in zip(REFUSED_BINDINGS, results[1::2], strict=True):
        expected = {"error_code": 42, "code": "INVALID_REQUEST", "error_message": text, "id": None, "created": False}
        assert result == expected, wrong
    assert patient.authorize("User:alice", *[action(each["resource_name"]) for each in good]) == ["ALLOWED"] * len(good)


REFUSED_FILTERS: list[tuple[Json, str]] = [
    ({"resource_type": "TOPICS"}, "Unknown patternFilter."),
    ({"resource_type": "UNKNOWN"}, "Unknown patternFilter."),
    ({"pattern_type": "SUFFIXED"}, "Unknown patternFilter."),
    ({"operation": "FLY"}, "Unknown entryFilter."),
    ({"permission_type": "allow"}, "Unknown entryFilter."),
    ({"resource_type": "X", "operation": "Y"}, "Unknown patternFilter."),
    ({"resource_name": TOO_LONG}, "'resourceNameFilter' field is too long to be serialized"),
    ({"principal": TOO_LONG}, "'principalFilter' field is too long to be serialized"),
    ({"host": TOO_LONG}, "'hostFilter' field is too long to be serialized"),
]


def test_each_refused_filter_has_kafkas_text_and_hinders_no_neighbour(patient: Process) -> None:
    names = [f"doomed-{n}" for n in range(len(REFUSED_FILTERS))]
    patient.create(*[acl(name) for name in names])
    filters: list[Json] = []
    for (wrong, _), name in zip(REFUSED_FILTERS, names, strict=True):
        filters += [wrong, {"resource_name": name}]
    results = patient.delete(*filters)["results"]
    for (wrong, text), result in zip(REFUSED_FILTERS, results[::2], strict=True):
        expected = {"error_code": 42, "code": "INVALID_REQUEST", "error_message": text, "matches": []}
        assert result == expected, wrong
    assert [result["matches"][0]["resource_name"] for result in results[1::2]] == names


def test_filters_that_mean_nothing_that_is_there_are_fine(patient: Process) -> None:
    empty: list[Json] = [
        {"resource_name": ""},
        {"principal": "no colon"},
        {"principal": ""},
        {"host": ""},
        {"host": "10.0.0.0/99"},
        {"resource_type": "CLUSTER", "resource_name": "another"},
        {"resource_name": LONGEST, "pattern_type": "MATCH", "resource_type": "GROUP"},
        {"operation": "TWO_PHASE_COMMIT"},
    ]
    results = patient.delete(*empty)["results"]
    assert results == [{"error_code": 0, "code": "NONE", "error_message": None, "matches": []}] * len(empty)
    for wanted in empty:
        assert patient.acls(**wanted) == []


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission_type"])
def test_an_unknown_word_in_a_search_is_named(patient: Process, field: str) -> None:
    body = {"context": context(), "filter": {field: "NEVER"}}
    problem = refusal(patient.http.post("/v1/acls/search", json=body), 400, "INVALID_REQUEST")
    assert pointers(problem) == {f"/filter/{field}"}
    assert "`NEVER`" in problem["detail"]


UNKNOWN_WORDS: list[tuple[str, Json, set[str]]] = [
    (
        "/v1/authorize",
        {"actions": [action("a"), action("a", "FLY"), action("a", "READ", "topic"), action("a", pattern_type="MATCH")]},
        {"/actions/1/operation", "/actions/2/resource_type", "/actions/3/pattern_type"},
    ),
    ("/v1/authorize", {"actions": [action("a", pattern_type="PREFIXED")]}, {"/actions/0/pattern_type"}),
    (
        "/v1/authorize-by-resource-type",
        {"operation": "FLY", "resource_type": "MOON"},
        {"/operation", "/resource_type"},
    ),
]


@pytest.mark.parametrize(("path", "change", "named"), UNKNOWN_WORDS)
def test_unknown_words_in_a_question_are_named(patient: Process, path: str, change: Json, named: set[str]) -> None:
    problem = refusal(patient.http.post(path, json={**BODIES[path], **change}), 400, "INVALID_REQUEST")
    assert pointers(problem) == named


def test_an_unknown_resource_type_among_resources_is_refused_alone(patient: Process) -> None:
    resources = [
        {"resource_type": word, "resource_name": "orders"} for word in ("TOPIC", "MOON", "ANY", "UNKNOWN", "GROUP")
    ]
    reply = patient.post("/v1/authorized-operations", {"context": context(), "resources": resources})
    assert [result["code"] for result in reply["results"]] == ["NONE", *["INVALID_REQUEST"] * 3, "NONE"]
    assert [result["authorized_operations"] for result in reply["results"]] == [3576, *[-(2**31)] * 3, 3400]


def test_words_of_filters_in_a_question_are_answered_as_kafka_does(patient: Process) -> None:
    for word in ("ANY", "UNKNOWN"):
        for field in ("operation", "resource_type"):
            body = {"context": context("User:x"), "operation": "READ", "resource_type": "TOPIC", field: word}
            refusal(patient.http.post("/v1/authorize-by-resource-type", json=body), 400, "INVALID_REQUEST")
    assert patient.authorize("User:x", action("a", "ANY"), action("a", "UNKNOWN"), action("a", "ALL")) == ["DENIED"] * 3


def test_what_goes_beyond_10000_new_acls_is_refused_as_a_whole(patient: Process) -> None:
    many = [acl(f"many-{n}") for n in range(10_001)]
    body = {"context": context(), "bindings": many, "timeout_ms": 120_000}
    problem = refusal(patient.http.post("/v1/acls", json=body), 400, "POLICY_VIOLATION")
    assert problem["error_code"] == 44
    assert problem["detail"] == "Unable to perform excessively large batch operation."
    assert count_of(patient, "many-") == 0
    # 10,001 entries of which one repeats and one is refused make 10,000 records at most.
    exactly = [*many[:10_000], many[0], acl("", "User:alice")]
    results = patient.create(*exactly, timeout_ms=120_000)["results"]
    assert [result["created"] for result in results] == [True] * 10_000 + [False] * 2
    assert results[10_000]["id"] == results[0]["id"]
    assert results[10_001]["code"] == "INVALID_REQUEST"
    patient.create(many[10_000])
    assert count_of(patient, "many-") == 10_001

    every = {"context": context(), "filters": [{"principal": "User:alice"}], "timeout_ms": 120_000}
    problem = refusal(patient.http.post("/v1/acls/delete", json=every), 400, "INVALID_REQUEST")
    assert problem["error_code"] == 42
    assert problem["detail"] == "Cannot remove more than 10000 acls in a single delete operation."
    assert count_of(patient, "many-") == 10_001
    patient.delete({"resource_name": "many-10000"})
    twice = {**every, "filters": [{"operation": "READ"}, {"resource_name": "many-0"}]}
    refusal(patient.http.post("/v1/acls/delete", json=twice), 400, "INVALID_REQUEST")
    others = [name for name in names_of(patient) if not name.startswith("many-")]
    patient.delete(*[{"resource_name": name} for name in others])
    removed = patient.delete({"operation": "READ"}, timeout_ms=120_000)["results"][0]["matches"]
    assert len(removed) == 10_000
    assert count_of(patient, "") == 0


def names_of(service: Process) -> list[str]:
    return [acl["resource_name"] for acl in service.acls()]


def count_of(service: Process, prefix: str) -> int:
    return sum(name.startswith(prefix) for name in names_of(service))


def test_texts_of_32767_bytes_are_kept_found_and_decided_by(patient: Process) -> None:
    longest = {
        "name": ("x" * 32_767, "User:long-name"),
        "umlauts": ("ä" * 16_383 + "x", "User:long-umlauts"),
        "emoji": ("😀" * 8_191 + "xyz", "User:long-emoji"),
        "principal": ("long-principal", f"User:{'p' * 32_762}"),
    }
    for name, principal in longest.values():
        assert max(len(name.encode()), len(principal.encode())) == 32_767
        assert patient.create(acl(name, principal))["results"][0]["created"]
        assert not patient.create(acl(name, principal))["results"][0]["created"]
        assert patient.authorize(principal, action(name), action(name[:-1]), action(name + "x")) == [
            "ALLOWED",
            "DENIED",
            "DENIED",
        ]
        assert [acl["resource_name"] for acl in patient.acls(principal=principal)] == [name]
        assert patient.acls(resource_name=name, pattern_type="MATCH", principal=principal)
        [removed] = patient.delete({"resource_name": name, "principal": principal})["results"]
        assert len(removed["matches"]) == 1


def test_a_question_may_be_longer_than_what_can_be_kept(patient: Process) -> None:
    patient.create(acl("y", "User:asks", pattern_type="PREFIXED"))
    assert patient.authorize("User:asks", action("y" * 500_000), action(""), action("z" * 100_000)) == [
        "ALLOWED",
        "DENIED",
        "DENIED",
    ]


CONFIGS: list[tuple[str, str | None, str]] = [
    ("no.such.property", "x", "no.such.property"),
    ("", "x", "unknown property"),
    ("SUPER.USERS", "User:a", "unknown property"),
    ("super.users", "nobody", "expected a string in format principalType:principalName but got nobody"),
    ("max.staleness.ms", "0", "Value must be at least 1"),
    ("max.staleness.ms", "-5", "Value must be at least 1"),
    ("max.staleness.ms", "soon", "Not a number of type LONG"),
    ("max.staleness.ms", "1e3", "Not a number of type LONG"),
    ("max.staleness.ms", "9223372036854775808", "Not a number of type LONG"),
    ("max.staleness.ms", "9" * 5_000, "Not a number of type LONG"),
    ("audit.level", "LOUD", "must be one of"),
    ("database.url", "postgresql://x", "unknown property"),
]


def test_each_refused_property_is_told_and_hinders_no_neighbour(patient: Process) -> None:
    changes: list[Json] = [{"name": name, "value": value} for name, value, _ in CONFIGS]
    changes.append({"name": "audit.level", "value": "WARN"})
    results = patient.post("/v1/configs", {"context": context(), "configs": changes})["results"]
    for (name, _, text), result in zip(CONFIGS, results[:-1], strict=True):
        assert (result["error_code"], result["code"]) == (42, "INVALID_REQUEST"), name
        assert text in result["error_message"]
    assert results[-1] == {"error_code": 0, "code": "NONE", "error_message": None}
    in_force = {entry["name"]: entry for entry in patient.http.get("/v1/configs").json()["configs"]}
    assert in_force["audit.level"] == {"name": "audit.level", "value": "WARN", "source": "STORE"}
    assert in_force["super.users"]["source"] == "STARTUP"


def test_who_has_no_right_on_the_cluster_is_refused_alike_whatever_he_asks(patient: Process) -> None:
    caller = context("User:nobody")
    asked: list[tuple[str, Json]] = [
        ("/v1/acls", {"bindings": [acl("orders")]}),
        ("/v1/acls", {"bindings": []}),
        ("/v1/acls", {"bindings": [acl("", "nonsense")] * 50}),
        ("/v1/acls/delete", {"filters": [{}]}),
        ("/v1/acls/delete", {"filters": [{"resource_type": "MOON"}]}),
        ("/v1/acls/search", {"filter": {}}),
        ("/v1/acls/search", {"filter": {"principal": "User:alice"}, "cursor": "x"}),
        ("/v1/configs", {"configs": [{"name": "super.users", "value": "User:nobody"}]}),
        ("/v1/configs", {"configs": [{"name": "no.such", "value": None}]}),
    ]
    replies = [patient.http.post(path, json={"context": caller, **body}) for path, body in asked]
    assert {reply.status_code for reply in replies} == {403}
    assert len({reply.text for reply in replies}) == 1
    problem = problem_in(replies[0])
    assert (problem["code"], problem["error_code"]) == ("CLUSTER_AUTHORIZATION_FAILED", 31)
