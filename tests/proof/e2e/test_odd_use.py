"""Odd but valid use: prefixes of prefixes, every spelling of an address, many clients at once, timeouts of nothing."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.bodies import problem_in
from tests.klamm import SUPER_USER, Json, Process, acl, action, context
from tests.proof.e2e.questions import answers


def test_prefixes_of_prefixes_all_count(service: Process) -> None:
    name = "foobar.baz"
    service.create(
        *[acl(name[:n], f"User:n{n}", pattern_type="PREFIXED") for n in range(1, len(name) + 1)],
        *[acl(name[:n], "User:all", "ALL", pattern_type="PREFIXED") for n in range(1, 6)],
        acl(name[:3], "User:all", "WRITE", pattern_type="PREFIXED", permission_type="DENY"),
    )
    for n in range(1, len(name) + 1):
        assert answers(service, f"User:n{n}", [name, name[:n], name[: n - 1], f"{name}!"]) == [
            "ALLOWED", "ALLOWED", "DENIED", "ALLOWED",
        ]  # fmt: skip
    assert answers(service, "User:all", ["f", "fo", "foo", name], "WRITE") == ["ALLOWED", "ALLOWED", "DENIED", "DENIED"]
    assert answers(service, "User:all", ["f", "foo", name], "READ") == ["ALLOWED"] * 3


def test_the_star_is_a_name_a_wildcard_or_a_prefix(service: Process) -> None:
    service.create(
        acl("*", "User:literal-star"),
        acl("*", "User:prefix-star", pattern_type="PREFIXED"),
        acl("starred", "User:*", "WRITE"),
        acl("grouped", "Group:*", "WRITE"),
    )
    asked = ["a", "*", "*a", "a*", ""]
    assert answers(service, "User:literal-star", asked) == ["ALLOWED"] * 5
    assert answers(service, "User:prefix-star", asked) == ["DENIED", "ALLOWED", "ALLOWED", "DENIED", "DENIED"]
    for principal in ("User:anyone", "Group:anyone", "User:*", ":", "User:"):
        assert answers(service, principal, ["starred"], "WRITE") == ["ALLOWED"]
    assert answers(service, "Group:anyone", ["grouped"], "WRITE") == ["DENIED"]
    assert answers(service, "Group:*", ["grouped"], "WRITE") == ["ALLOWED"]


SPELLINGS = {
    "0:0:0:0:0:0:0:1": ["::1", "0::1", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "::0.0.0.1"],
    "2001:db8:0:0:0:0:ab:c": ["2001:db8::ab:c", "2001:DB8::AB:C", "2001:0db8:0:0::00ab:000c", "2001:db8::0.171.0.12"],
    "10.1.2.3": ["10.1.2.3", "::ffff:10.1.2.3", "::FFFF:a01:203", "0:0:0:0:0:ffff:0a01:0203"],
    "fe80:0:0:0:0:0:0:1%eth0": ["fe80::1%eth0", "FE80:0::1%eth0"],
}


@pytest.mark.parametrize("host", SPELLINGS)
def test_an_address_is_itself_in_every_spelling(service: Process, host: str) -> None:
    """ACL hosts are compared with the form that Java prints."""
    service.create(acl("by host", "User:spelled", host=host))
    for spelling in SPELLINGS[host]:
        asked = {"context": context("User:spelled", spelling), "actions": [action("by host")]}
        assert service.post("/v1/authorize", asked)["results"] == ["ALLOWED"], spelling
    other = {"context": context("User:spelled", "2001:db8::ab:d"), "actions": [action("by host")]}
    assert service.post("/v1/authorize", other)["results"] == ["DENIED"]


RANGES: list[tuple[str, list[str], list[str]]] = [
    ("10.1.0.0/16", ["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3"], ["10.2.0.0", "10.0.255.255", "::a01:203"]),
    ("10.1.2.3/16", ["10.1.0.0"], ["10.2.0.0"]),
    ("0.0.0.0/0", ["1.2.3.4", "255.255.255.255", "0.0.0.0"], ["::1"]),  # noqa: S104 - an address, not a socket
    ("192.168.1.7/32", ["192.168.1.7"], ["192.168.1.8"]),
    ("2001:db8::/32", ["2001:db8::", "2001:db8:ffff::1", "2001:DB8::1%eth0"], ["2001:db9::", "10.1.2.3"]),
    ("::/0", ["::", "ffff::"], ["1.2.3.4", "::ffff:1.2.3.4"]),
    ("::1/128", ["::1"], ["::2"]),
]


@pytest.mark.parametrize(("host", "inside", "outside"), RANGES)
def test_a_range_covers_its_addresses(service: Process, host: str, inside: list[str], outside: list[str]) -> None:
    service.create(acl("ranged", f"User:{host}", host=host))
    for address in [*inside, *outside]:
        asked = {"context": context(f"User:{host}", address), "actions": [action("ranged")]}
        expected = ["ALLOWED" if address in inside else "DENIED"]
        assert service.post("/v1/authorize", asked)["results"] == expected, address
    # A DENY on a range, too.
    service.create(acl("ranged", f"User:{host}", host=host, permission_type="DENY"), acl("ranged", f"User:{host}"))
    for address in [*inside, *outside]:
        asked = {"context": context(f"User:{host}", address), "actions": [action("ranged")]}
        expected = ["DENIED" if address in inside else "ALLOWED"]
        assert service.post("/v1/authorize", asked)["results"] == expected, address


def test_twenty_clients_that_create_the_same_acls_get_the_same_ids(service: Process) -> None:
    wanted = [acl(f"same-{n}", "User:same") for n in range(50)]
    together = threading.Barrier(20)

    def create(n: int) -> list[Json]:
        together.wait(60)
        in_some_order = wanted[n:] + wanted[:n]
        results: list[Json] = service.create(*in_some_order)["results"]
        return results[50 - n :] + results[: 50 - n]

    with ThreadPoolExecutor(20) as clients:
        answered = list(clients.map(create, range(20)))
    for each in zip(*answered, strict=True):
        assert len({result["id"] for result in each}) == 1
        assert sum(result["created"] for result in each) == 1
    assert len(service.acls(principal="User:same")) == 50


def test_twenty_clients_that_delete_the_same_acl_remove_it_once(service: Process) -> None:
    service.create(*[acl(f"gone-{n}", "User:gone") for n in range(20)])
    before = int(service.create(acl("offset", "User:gone"))["token"].partition(":")[2])
    with ThreadPoolExecutor(20) as clients:
        answered = list(clients.map(lambda _: service.delete({"principal": "User:gone"}), range(20)))
    removed = [acl["id"] for answer in answered for acl in answer["results"][0]["matches"]]
    assert len(removed) == len(set(removed)) == 21
    # One record each, and none for those that found nothing.
    assert max(int(answer["token"].partition(":")[2]) for answer in answered) == before + 21


def test_an_acl_that_comes_and_goes_has_a_new_id_each_time_and_is_seen_at_once(service: Process) -> None:
    ids = set()
    for _ in range(100):
        [created] = service.create(acl("comes and goes", "User:cg"))["results"]
        assert answers(service, "User:cg", ["comes and goes"]) == ["ALLOWED"]
        ids.add(created["id"])
        [removed] = service.delete({"principal": "User:cg"})["results"]
        assert [acl["id"] for acl in removed["matches"]] == [created["id"]]
        assert answers(service, "User:cg", ["comes and goes"]) == ["DENIED"]
        assert service.http.get(f"/v1/acls/{created['id']}").status_code == 404
    assert len(ids) == 100


def test_one_call_may_name_the_same_acl_many_times(service: Process) -> None:
    results = service.create(*[acl("again", "User:again")] * 100)["results"]
    assert len({result["id"] for result in results}) == 1
    assert [result["created"] for result in results] == [True] + [False] * 99
    removed = service.delete(*[{"principal": "User:again"}] * 10)["results"]
    assert [len(result["matches"]) for result in removed] == [1] * 10
    assert service.acls(principal="User:again") == []


@pytest.mark.parametrize("timeout_ms", [0, 1, 2, 5])
def test_a_timeout_of_next_to_nothing_never_leads_to_a_lie(service: Process, timeout_ms: int) -> None:
    outcomes: dict[str, str] = {}
    for n in range(60):
        name = f"hasty-{timeout_ms}-{n}"
        body = {"context": context(), "bindings": [acl(name, "User:hasty")], "timeout_ms": timeout_ms}
        reply = service.http.post("/v1/acls", json=body)
        outcomes[name] = "NONE" if reply.is_success else problem_in(reply)["code"]
        assert reply.status_code in (200, 503, 504), reply.text
    assert set(outcomes.values()) <= {"NONE", "STORE_UNAVAILABLE", "REQUEST_TIMED_OUT"}
    # Whatever was on its way has been written before this one.
    service.create(acl("patient", "User:hasty"))
    found = {acl["resource_name"] for acl in service.acls(principal="User:hasty")}
    assert {name for name, code in outcomes.items() if code == "NONE"} <= found
    assert not {name for name, code in outcomes.items() if code == "STORE_UNAVAILABLE"} & found


def test_an_update_of_nothing_is_answered_with_the_token_of_now(service: Process) -> None:
    token = service.create(acl("now", "User:now"))["token"]
    assert service.create() == {"results": [], "token": token}
    assert service.delete() == {"results": [], "token": token}
    assert service.create(acl("now", "User:now"))["token"] == token
    assert service.delete({"resource_name": "never there"})["token"] == token


def test_every_field_of_the_context_at_its_bounds_is_fine(service: Process) -> None:
    for numbers in ((-(2**15), -(2**31)), (2**15 - 1, 2**31 - 1), (None, None)):
        asked = context(
            SUPER_USER,
            listener_name="\n",
            security_protocol="ANYTHING",
            request_type=numbers[0],
            request_version=numbers[0],
            client_id="x" * 10_000,
            correlation_id=numbers[1],
        )
        actions = [action("a", resource_reference_count=-(2**31), log_if_allowed=False, log_if_denied=False)]
        assert service.post("/v1/authorize", {"context": asked, "actions": actions})["results"] == ["ALLOWED"]


LOOK_ALIKES = [
    "User:admin ", " User:admin", "user:admin", "User:Admin", "User:admin\n", "User:admi", "User:admins", "Group:admin",
    "User: admin", "User:\xa0admin", "User:\uff41dmin", "User:admin;", "User:admin;User:x",
]  # fmt: skip


def test_who_only_looks_like_a_super_user_is_none(service: Process) -> None:
    for name in LOOK_ALIKES:
        assert answers(service, name, ["nobody's"]) == ["DENIED"], repr(name)
        body = {"context": context(name), "bindings": [acl("theirs", name)]}
        assert problem_in(service.http.post("/v1/acls", json=body))["code"] == "CLUSTER_AUTHORIZATION_FAILED"


def test_one_call_may_change_a_property_several_times(service: Process) -> None:
    def change(*values: str | None) -> int:
        configs = [{"name": "early.start.listeners", "value": value} for value in values]
        reply = service.post("/v1/configs", {"context": context(), "configs": configs})
        assert {result["code"] for result in reply["results"]} == {"NONE"}
        return int(reply["token"].partition(":")[2])

    def in_force() -> Json:
        [found] = [e for e in service.http.get("/v1/configs").json()["configs"] if e["name"] == "early.start.listeners"]
        return {"value": found["value"], "source": found["source"]}

    before = change(None)
    assert change("A", "B", None, "C") == before + 4
    assert in_force() == {"value": "C", "source": "STORE"}
    assert change("C", "C") == before + 4
    assert change(None, None) == before + 5
    assert in_force() == {"value": "", "source": "STARTUP"}
    many = ";".join(f"User:operator-{n}" for n in range(20_000)) + f";{SUPER_USER}"
    change_users = {"context": context(), "configs": [{"name": "super.users", "value": many}]}
    assert service.post("/v1/configs", change_users)["results"][0]["code"] == "NONE"
    assert answers(service, "User:operator-19999", ["anything"]) == ["ALLOWED"]
    back = {"context": context("User:operator-7"), "configs": [{"name": "super.users", "value": None}]}
    assert service.post("/v1/configs", back)["results"][0]["code"] == "NONE"
    assert answers(service, "User:operator-19999", ["anything"]) == ["DENIED"]
