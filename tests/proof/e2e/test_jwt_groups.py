"""Groups that signed tokens name, at a real `klamm serve`: what they decide, and what nobody gets by naming them."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.bodies import BODIES
from tests.issuers import Key, issuer_table, key_set
from tests.klamm import Json, Process, acl, action, context, over_socket, wait_until
from tests.postgres import Postgres

TABLES = f"""
super.users = "User:admin;Group:ops"
{issuer_table("main", "keys.json")}
[callers.gateway]
role = "decide"
principals = ["User:*"]
issuer = "main"
subject = "gateway"
groups_claim = "groups"

[callers.platform]
role = "admin"
principal = "User:platform"
groups = ["eng-*"]
issuer = "main"
subject = "platform"
groups_claim = "groups"

[callers.root]
role = "admin"
principal = "User:admin"
issuer = "main"
subject = "root"
"""
KEY = Key("first")
ODD_NAMES = ["p\u0456i", "\u202eiip", "\u05d0-\u0627", "<script>alert(1)</script>", "*", "User:admin", "x" * 255]
IN_CONTEXT = [path for path, body in BODIES.items() if "context" in body]


def rule(principal: str, operation: str, name: str = "customers", permission: str = "ALLOW") -> Json:
    return acl(name, principal, operation, permission_type=permission)


def on_cluster(principal: str, operation: str, permission: str = "ALLOW") -> Json:
    return {**rule(principal, operation, "kafka-cluster", permission), "resource_type": "CLUSTER"}


ACLS = [
    rule("Group:pii", "READ"),
    rule("Group:fired", "READ", permission="DENY"),
    *(on_cluster("Group:platform", operation) for operation in ("DESCRIBE", "DESCRIBE_CONFIGS")),
    on_cluster("Group:fired", "ALL", "DENY"),
    *(rule(f"Group:{name}", "READ", "odd") for name in ODD_NAMES),
]


class Signed:
    """A service that believes the keys in a file, and what callers with tokens of `key` are answered."""

    def __init__(self, service: Process, keys: Path) -> None:
        self.service = service
        self.key = KEY
        self._keys = keys

    def publish(self, *keys: Key) -> None:
        beside = self._keys.with_name("keys.json.new")
        beside.write_bytes(key_set(*keys))
        beside.replace(self._keys)

    def headers(self, subject: str, claims: Json) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key.token(sub=subject, **claims)}"}

    def post(self, subject: str, claims: Json, path: str, body: Json) -> httpx.Response:
        return self.service.http.post(path, json=body, headers=self.headers(subject, claims))

    def get(self, subject: str, claims: Json, path: str) -> httpx.Response:
        return self.service.http.get(path, headers=self.headers(subject, claims))

    def authorize(self, claims: Json, groups: list[str] | None, topic: str = "customers") -> str | int:
        """What the gateway hears of User:alice: the result, or the status of the refusal. It asks twice, as the
        second time its token is remembered."""
        body = {"context": context("User:alice", groups=groups), "actions": [action(topic)]}
        headers = self.headers("gateway", claims)
        replies = [self.service.http.post("/v1/authorize", json=body, headers=headers) for _ in range(2)]
        answers: set[str | int] = {
            reply.json()["results"][0] if reply.status_code == httpx.codes.OK else reply.status_code
            for reply in replies
        }
        (answer,) = answers
        return answer


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Signed]:
    folder = tmp_path_factory.mktemp("groups")
    (folder / "klamm.toml").write_text(TABLES)
    (folder / "keys.json").write_bytes(key_set(KEY))
    with over_socket(settings={"KLAMM_DATABASE_URL": postgres.new_store()}, folder=folder) as service:
        it = Signed(service.ready(), folder / "keys.json")
        reply = it.post("root", {}, "/v1/acls", {"context": context("User:admin"), "bindings": ACLS})
        assert reply.status_code == httpx.codes.OK, reply.text
        assert {each["code"] for each in reply.json()["results"]} == {"NONE"}
        yield it


def test_the_groups_of_the_token_decide_and_no_others_can_be_asserted(signed: Signed) -> None:
    for claimed, named, answer in (
        (["pii"], ["pii"], "ALLOWED"),
        (["pii"], [], "DENIED"),
        (["pii"], None, "DENIED"),
        ([], ["pii"], 403),
        (["other"], ["pii"], 403),
        (["pii", "fired"], ["pii", "fired"], "DENIED"),
        (["pii"], ["pii", "fired"], 403),
        ("pii", ["pii"], "ALLOWED"),
        (["pii", "pii"], ["pii"], "ALLOWED"),
        (["PII"], ["pii"], 403),
    ):
        assert signed.authorize({"groups": claimed}, named) == answer, (claimed, named)
    for claims in ({}, {"roles": ["pii"]}, {"Groups": ["pii"]}, {"realm": {"groups": ["pii"]}}):
        assert signed.authorize(claims, ["pii"]) == 403
        assert signed.authorize(claims, []) == "DENIED"


def test_no_route_takes_a_group_that_neither_the_token_nor_the_configuration_names(
    subtests: pytest.Subtests, signed: Signed
) -> None:
    for path in IN_CONTEXT:
        with subtests.test(path=path):
            for claims in ({}, {"groups": ["platform"]}):
                asked = {**BODIES[path], "context": context("User:platform", groups=["pii"])}
                reply = signed.post("platform", claims, path, asked)
                assert reply.status_code == httpx.codes.FORBIDDEN, reply.text
                assert reply.json()["detail"] == "the caller `platform` may not assert the groups of this context"


def test_a_claim_that_is_no_list_of_groups_refuses_the_token(subtests: pytest.Subtests, signed: Signed) -> None:
    for claim in [
        *(7, True, "", ["pii", ""], ["pii", 7], ["pii", None], [["pii"]], {"pii": True}, {"groups": ["pii"]}),
        *([f"g{at}" for at in range(300)], ["x" * 256], ["a\0"], ["\ud800"]),
    ]:
        with subtests.test(claim=claim):
            for named in ([], ["pii"]):
                assert signed.authorize({"groups": claim}, named) == 401


def test_the_reason_is_among_the_metrics(signed: Signed) -> None:
    assert signed.authorize({"groups": 7}, []) == 401
    assert 'klamm_callers_refused_total{reason="jwt_groups"}' in signed.get("root", {}, "/metrics").text


def test_odd_names_are_groups_called_so_and_nothing_else(signed: Signed) -> None:
    for name in ODD_NAMES:
        assert signed.authorize({"groups": [name]}, [name], "odd") == "ALLOWED"
        assert signed.authorize({"groups": [name]}, [name]) == "DENIED"
        for other in ("pii", "iip", "admin", "x"):
            assert signed.authorize({"groups": [name]}, [other]) == 403
    assert signed.authorize({"groups": ODD_NAMES}, ODD_NAMES, "odd") == "ALLOWED"
    most = [f"g{at}" for at in range(199)]
    assert signed.authorize({"groups": [*most, "pii", *most]}, ["pii"]) == "ALLOWED"


def test_no_claim_makes_a_super_user(signed: Signed) -> None:
    names = ["ops", "Group:ops", "User:admin", "admin"]
    assert signed.authorize({"groups": names}, names) == "DENIED"
    question = {"context": context("User:platform"), "bindings": [rule("User:x", "READ")]}
    reply = signed.post("platform", {"groups": names}, "/v1/acls", question)
    assert reply.json()["code"] == "CLUSTER_AUTHORIZATION_FAILED"
    # Whom a caller may speak for is not the token's to say.
    for principal in ("User:admin", "Group:ops"):
        question = {"context": context(principal, groups=names), "actions": [action("customers")]}
        reply = signed.post("gateway", {"groups": names}, "/v1/authorize", question)
        assert reply.status_code == httpx.codes.FORBIDDEN


def test_an_admin_acts_with_the_groups_of_its_token_and_can_not_leave_one_out(signed: Signed) -> None:
    for claimed, status in ((["platform"], 200), (["platform", "fired"], 403), (["fired"], 403), ([], 403)):
        for named in (None, [], claimed[:1], [*claimed, "eng-a"]):
            asked = {"context": context("User:platform", groups=named), "filter": {}}
            assert signed.post("platform", {"groups": claimed}, "/v1/acls/search", asked).status_code == status
        assert signed.get("platform", {"groups": claimed}, "/v1/configs").status_code == status


def test_groups_go_with_their_token_and_its_key(signed: Signed) -> None:
    with_pii = signed.headers("gateway", {"groups": ["pii"]})
    question = {"context": context("User:alice", groups=["pii"]), "actions": [action("customers")]}

    def status(headers: dict[str, str]) -> int:
        return signed.service.http.post("/v1/authorize", json=question, headers=headers).status_code

    assert status(with_pii) == httpx.codes.OK
    forged = Key(KEY.kid).token(sub="gateway", groups=["pii"])
    assert status({"authorization": f"Bearer {forged}"}) == httpx.codes.UNAUTHORIZED
    signed.key = Key("second")
    signed.publish(signed.key)
    wait_until(lambda: status(signed.headers("gateway", {"groups": ["pii"]})) == httpx.codes.OK, "the new key")
    wait_until(lambda: status(with_pii) == httpx.codes.UNAUTHORIZED, "the old key is worth nothing")
    assert status(signed.headers("gateway", {"groups": ["left"]})) == httpx.codes.FORBIDDEN
