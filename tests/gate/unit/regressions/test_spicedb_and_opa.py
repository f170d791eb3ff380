"""Published faults of SpiceDB and OPA, each shown not to be Klamm's."""

import asyncio
import random
from base64 import b64encode
from itertools import product
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.index.search import search
from app.core.kafka.codes import AclOperation, PatternType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.core.token import Token
from app.runtime.listing import CURSORS
from tests.gate.unit.regressions.acls import DESCRIBE, READ, TOPIC, WRITE, prefix
from tests.gate.unit.regressions.acls import allow as acl_for
from tests.images import binding_of, index_of, numbered
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl
from tests.reference import Reference


def test_spicedb_cve_2025_65111_look_up_and_check_agree_after_a_delete() -> None:
    acls = [acl_for("orders"), prefix("ord"), acl_for("*")]
    index = index_of(numbered(acls))
    meant = AclBindingFilter(TOPIC, "orders", PatternType.MATCH)
    for each in acls:
        assert any(found.binding == each for step in search(index, meant) for found in step)
        index.remove(each)
        assert not any(found.binding == each for step in search(index, meant) for found in step)
    assert not index.covers(TOPIC, "orders")


READ_GROUP = {"operation": "READ", "resource_type": "GROUP"}


async def test_cve_2026_55866_many_at_once_get_their_own_answers(replica: InProcess) -> None:
    """A cache was poisoned by requests that ran at the same time."""
    names = [f"orders-{n}" for n in range(20)]
    await replica.create(*(acl(name, f"User:{name}") for name in names))

    def body_for(principal: str) -> dict[str, object]:
        actions = [{**READ_ORDERS, "resource_name": name} for name in names]
        return {"context": {"principal": f"User:{principal}", "client_address": "10.0.0.1"}, "actions": actions}

    async def ask(caller: str, principal: str) -> tuple[int, list[str]]:
        reply = await replica.send("/v1/authorize", body_for(principal), caller)
        return reply.status_code, reply.json().get("results", [])

    async def check(caller: str, principal: str) -> None:
        expected = 200 if caller == "anyone" or principal.startswith("orders-") else 403
        status, results = await ask(caller, principal)
        assert status == expected
        right = ["ALLOWED" if name == principal else "DENIED" for name in names] if status == 200 else []
        assert results == right
        assert (replica.at_once(f"Bearer {replica.tokens[caller]}", body_for(principal)) or []) == right

    asked = [(caller, who) for caller in ("anyone", "sidecar") for who in (*names, "alice", "bob")] * 5
    random.Random(55_866).shuffle(asked)
    await asyncio.gather(*(check(caller, who) for caller, who in asked))


async def test_cve_2026_46668_a_batch_answers_as_its_questions_would_alone(service: InProcess) -> None:
    """Nested lists in a bulk check collided in one key."""
    names = ["a", "b", "[a]", '["a"', '"b"]', '["a","b"]', "[[a],[b]]", "a][b", "a\nb", "{}", "0", "a\\", '\\"', "é"]
    await service.create(*(acl(name, resource_type="GROUP") for name in names[::2]))
    actions = [{**READ_GROUP, "resource_name": name} for name in names]
    alone = [(await service.authorize(ALICE, action))[0] for action in actions]
    assert alone == ["ALLOWED" if at % 2 == 0 else "DENIED" for at in range(len(names))]
    dice = random.Random(46_668)
    for _ in range(20):
        drawn = [dice.randrange(len(names)) for _ in range(50)]
        batch = await service.authorize(ALICE, *(actions[at] for at in drawn))
        assert batch == [alone[at] for at in drawn]


codes, texts = st.integers(0, 127), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
cursors = st.tuples(codes, texts, codes, texts, texts, codes, codes).map(CURSORS.encode)
tokens = st.builds(Token, st.uuids(), st.integers(0, 2**63 - 1)).map(str)


@st.composite
def spoiled(draw: st.DrawFn, good: st.SearchStrategy[str]) -> str:
    """One that was handed out, with a place or two of it changed, taken out or put in."""
    text = draw(good)
    for _ in range(draw(st.integers(1, 3))):
        at, length = draw(st.integers(0, len(text))), draw(st.integers(0, 2))
        text = text[:at] + draw(st.text(max_size=2) | st.text("AZaz09-_=:.+/", max_size=2)) + text[at + length :]
    return text


@given(st.text(max_size=200) | spoiled(cursors) | st.binary(max_size=200).map(lambda raw: b64encode(raw).decode()))
def test_ghsa_vhvq_a_cursor_is_one_that_was_handed_out_or_is_refused(cursor: str) -> None:
    """A cursor of garbage was a panic."""
    try:
        key = CURSORS.decode(cursor)
    except InvalidRequestException:
        return
    assert CURSORS.encode(key) == cursor


@given(st.text(max_size=200) | spoiled(tokens) | tokens)
def test_ghsa_vhvq_a_token_is_one_that_was_handed_out_or_is_refused(token: str) -> None:
    try:
        parsed = Token.parse(token)
    except InvalidRequestException:
        return
    assert str(parsed) == token


async def test_ghsa_vhvq_garbage_is_a_refusal_on_every_way_in(service: InProcess) -> None:
    good = CURSORS.encode((2, "orders", 3, "User:alice", "*", 3, 3))
    ask = {"context": ADMIN, "actions": [READ_ORDERS]}
    for garbage in ("", "x", "=" * 4, good[:-1], good + "=", f"{good}\n", "💥", "A" * 100_000, "-1", ":", "null"):
        search = {"context": ADMIN, "filter": {}, "cursor": garbage}
        for path, body in (("/v1/acls/search", search), ("/v1/authorize", {**ask, "at_least": garbage})):
            reply = await service.send(path, body)
            assert (reply.status_code, reply.json()["code"]) == (400, "INVALID_REQUEST"), (path, garbage[:20])
    assert (await service.send("/v1/acls/search", {"context": ADMIN, "filter": {}, "cursor": good})).status_code == 200


async def test_cve_2025_49011_what_is_listed_amounts_to_what_is_decided(service: InProcess) -> None:
    """A look-up and a check looked at different sets of conditions."""
    dice = random.Random(49_011)
    drawn = [
        acl(
            dice.choice(("orders", "ord", "o", "*", "other")),
            dice.choice(("User:alice", "User:bob", "User:*")),
            dice.choice(("READ", "WRITE", "DESCRIBE", "ALL")),
            host=dice.choice(("*", "10.0.0.1", "10.0.0.0/31")),
            pattern_type=dice.choice(("LITERAL", "PREFIXED")),
            permission_type=dice.choice(("ALLOW", "ALLOW", "DENY")),
        )
        for _ in range(40)
    ]
    await service.create(*drawn)
    asked = product(("orders", "ord", "other", "x"), ("User:alice", "User:bob"), ("10.0.0.1", "10.0.0.9"))
    for name, principal, address in asked:
        wanted = {"resource_type": "TOPIC", "resource_name": name, "pattern_type": "MATCH"}
        found = (await service.send("/v1/acls/search", {"context": ADMIN, "filter": wanted, "limit": 1_000})).json()
        listed = Reference([binding_of(each) for each in found["acls"]])
        context = {"principal": principal, "client_address": address}
        operations = (READ, WRITE, DESCRIBE, AclOperation.DELETE)
        actions = [{**READ_ORDERS, "resource_name": name, "operation": operation.name} for operation in operations]
        results = await service.authorize(context, *actions)
        assert [result == "ALLOWED" for result in results] == [
            listed.authorize(principal, address, operation, TOPIC, name) for operation in operations
        ]


HOSTILE = [
    "rules.klamm.allow",
    'x"; allow := true #',
    "{{7*7}}",
    "${7*7}",
    "__import__('os')",
    "' OR '1'='1",
    "1; DROP TABLE acl",
    "../../v1/configs",
    "%2e%2e%2fadmin",
    "x/../../metrics",
    "{principal}",
    "%s%n",
]


async def test_cve_2025_46569_a_path_is_a_name_and_never_code(subtests: pytest.Subtests, service: InProcess) -> None:
    """The path of a request became part of a query."""
    for name in HOSTILE:
        with subtests.test(name=name):
            quoted = quote(name, safe="")
            known = await service.client.get("/readyz/PLAINTEXT?verbose")
            reply = await service.client.get(f"/readyz/{quoted}?verbose")
            if "/" in name:
                assert reply.status_code == 404
            else:
                assert (reply.status_code, reply.text) == (200, known.text.replace("PLAINTEXT", name))
            for path in (f"/v1/acls/{quoted}", f"/v1/{quoted}", f"/{quoted}"):
                reply = await service.client.get(path)
                assert (reply.status_code, reply.json()["code"]) in (
                    (404, "RESOURCE_NOT_FOUND"),
                    (400, "INVALID_REQUEST"),
                )
                assert "49" not in reply.json()["detail"]
