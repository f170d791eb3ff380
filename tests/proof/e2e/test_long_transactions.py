"""Names of 32,000 characters: no call becomes a transaction that readers can't take, and one of before is passed."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import NewAcl
from app.core.mutations import CreateAcls, Mutation
from app.formats.database_url import DatabaseUrl
from app.store.writing import acl_store
from app.store.writing.acl_store import PostgresAclStore
from tests.klamm import Process, acl, action, context, replica
from tests.postgres import Postgres
from tests.proof.e2e.history import offset_of
from tests.proof.e2e.test_followers import follower_of
from tests.store_on_postgres import PATIENT
from tests.updates import ACTOR, alter, topic
from tests.watching import Stream, token_of

COUNT = 200
"""So many ACLs are one body of createAcls; of three such calls one transaction holds two."""
BOUND = 16 * 1024 * 1024
TIMEOUT = {"timeout_ms": 60_000}
EPOCHS = {"klamm-epochs": "1"}
"""Another process that writes begins an epoch."""


@pytest.fixture(scope="module")
def url(postgres: Postgres) -> str:
    return postgres.new_store()


@pytest.fixture(scope="module")
def one(url: str) -> Iterator[Process]:
    with replica(url) as service:
        service.ready().create(acl("first"))
        yield service


@pytest.fixture(scope="module")
def follower(one: Process) -> Iterator[Process]:
    with follower_of(one.url) as service:
        yield service.ready()


def written(url: str, *mutations: Mutation) -> str:
    """As another replica on the database writes them. Returns the token."""

    async def write() -> str:
        store = PostgresAclStore(DatabaseUrl.parse(url), PATIENT)
        try:
            done = await store.write(mutations, KnownHistory())
            return f"{done.epoch}:{done.last_offset}"
        finally:
            await store.close()

    return asyncio.run(write())


def test_calls_that_are_too_long_are_refused_and_all_others_are_written(one: Process, follower: Process) -> None:
    def create(letter: str) -> list[str]:
        names = [f"{letter}{number:03d}" + "x" * 32_000 for number in range(COUNT)]
        made = one.create(*(acl(name, f"User:{letter}") for name in names), **TIMEOUT)
        return [each["code"] for each in made["results"]]

    def delete(principal: str) -> int:
        return len(one.delete({"principal": principal}, **TIMEOUT)["results"][0]["matches"])

    loads = follower.metric("klamm_image_loads_total")
    with Stream(follower.url, "snapshot=true", EPOCHS) as read, ThreadPoolExecutor(3) as pool:
        # They wait for the same transaction, which holds two of them.
        assert list(pool.map(create, "abc")) == [["NONE"] * COUNT] * 3
        body = {"context": context(), "filters": [{"pattern_type": "LITERAL"}], **TIMEOUT}
        refused = one.post("/v1/acls/delete", body, status=400)
        assert refused["code"] == "POLICY_VIOLATION"
        size = int(refused["detail"].split("at least ")[1].split(" bytes")[0].replace(",", ""))
        names = [len(acl["resource_name"]) for acl in one.acls()]
        assert 3 * COUNT * 32_000 < sum(names) < size < sum(names) + 200 * len(names)
        assert f"at most {BOUND:,}" in refused["detail"]
        assert len(one.acls(principal="User:a")) == COUNT
        assert list(pool.map(delete, ["User:a", "User:b", "User:c"])) == [COUNT] * 3
        read.until(token_of(one))
        assert not [acl for acl in read.seen.acls.values() if acl.binding.principal in ("User:a", "User:b", "User:c")]
    assert follower.metric("klamm_image_loads_total") == loads
    assert follower.metric("klamm_records_poisoned_total") == 0


def test_a_transaction_of_before_the_bound_is_passed_by_410_and_a_snapshot(
    url: str, one: Process, follower: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = token_of(one)
    loads = follower.metric("klamm_image_loads_total")
    with Stream(one.url, f"after={before}", EPOCHS) as live:
        live.until(before)
        monkeypatch.setattr(acl_store, "MAX_TRANSACTION_BYTES", 1 << 40)
        names = [f"{number:03d}" + "x" * 32_000 for number in range(600)]
        token = written(url, CreateAcls([NewAcl(topic(name)) for name in names], ACTOR))
        assert live.ended() == "reload"
        assert offset_of(live.seen.token or "") == offset_of(before)
    gone = one.http.get(f"/v1/watch?after={before}", headers=EPOCHS)
    assert (gone.status_code, gone.json()["code"], gone.json()["oldest_token"]) == (410, "OFFSET_OUT_OF_RANGE", token)
    assert "too long" in gone.json()["detail"]
    # The follower decides by it, and so do its own readers.
    assert follower.authorize("User:alice", action(names[-1]), at_least=token) == ["ALLOWED"]
    assert follower.metric("klamm_image_loads_total") > loads
    with Stream(follower.url, "snapshot=true", EPOCHS) as fresh, Stream(one.url, f"after={token}", EPOCHS) as later:
        last = str(one.create(acl("later"))["token"])
        fresh.until(last)
        later.until(last)
        assert len(fresh.seen.acls) == one.metric("klamm_acl_count") >= 601
    epoch, _, _ = token.partition(":")
    gone = follower.http.get(f"/v1/watch?after={epoch}:{offset_of(before)}", headers=EPOCHS)
    assert (gone.status_code, gone.json()["oldest_token"]) == (410, token)


def test_a_property_of_a_later_version_is_handed_on_and_named(url: str, one: Process, follower: Process) -> None:
    token = written(url, alter(("later.property", "on"), ("audit.level", "WARN")))
    for service in (one, follower):
        described = service.http.get(f"/v1/configs?at_least={token}").json()
        assert described["unknown_names"] == ["later.property"]
        assert "later.property" not in [each["name"] for each in described["configs"]]
        assert ("audit.level", "WARN") in [(each["name"], each["value"]) for each in described["configs"]]
        assert service.metric("klamm_configs_unknown") == 1
        assert service.metric("klamm_records_poisoned_total") == 0
    with follower_of(follower.url) as far, Stream(follower.url, "snapshot=true", EPOCHS) as read:
        assert far.ready().http.get("/v1/configs").json()["unknown_names"] == ["later.property"]
        read.until(token)
        assert read.seen.configs == {"later.property": "on", "audit.level": "WARN"}
        back = written(url, alter(("later.property", None)))
        assert far.http.get(f"/v1/configs?at_least={back}").json()["unknown_names"] == []
