"""Updates that are handed on: in their callers' words, once, and never said to be made or refused if nobody knows."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.continuity import KnownHistory
from app.core.groups import groups_of
from app.core.kafka.errors import (
    ApiException,
    InvalidUpdateVersionException,
    RequestTimedOutException,
    StoreUnavailableException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import Mutation, Outcome
from app.upstream.acl_store import UpstreamAclStore
from tests.fake_upstream import EPOCH, followed_by
from tests.planted import plant
from tests.scripted_server import Answer, ScriptedServer, Step, hang_up, problem, reply
from tests.updates import alter, create, created, delete, matches, topic

CREATED = {"code": "NONE", "error_code": 0, "id": "00000000-0000-0000-0000-000000000002", "created": True}
TOKEN = f"{EPOCH}:2"


@asynccontextmanager
async def store_on(
    server: ScriptedServer, *answers: Step, token_file: Path | None = None
) -> AsyncIterator[UpstreamAclStore]:
    """What hands on to the server once its stream is there, and gets these answers."""
    async with followed_by(server, token_file=token_file) as (connection, feed):
        server.script[:] = answers
        yield UpstreamAclStore(connection, feed)


async def written(store: UpstreamAclStore, mutation: Mutation) -> Outcome | ApiException:
    group = await store.write([mutation], KnownHistory())
    (outcome,) = group.outcomes
    return outcome


async def test_each_update_is_asked_for_in_its_callers_words() -> None:
    binding = topic("orders")
    with ScriptedServer() as server:
        gone = {"code": "NONE", "matches": []}
        answers = (
            reply(results=[CREATED], token=TOKEN),
            reply(results=[gone], token=TOKEN),
            reply(results=[{"code": "NONE"}], token=TOKEN),
        )
        async with store_on(server, *answers) as store:
            assert [str(each.id)[-1] for each in created(await written(store, create(binding)))] == ["2"]
            assert matches(await written(store, delete(AclBindingFilter(resource_name="orders")))) == [[]]
            assert not isinstance(await written(store, alter(("super.users", "User:root"))), ApiException)
        made, removed, changed = server.seen[1:]
    assert [each.path for each in (made, removed, changed)] == ["/v1/acls", "/v1/acls/delete", "/v1/configs"]
    assert made.body["context"] == {"principal": "User:admin", "client_address": "127.0.0.1"}
    assert made.body["bindings"][0]["resource_name"] == "orders"
    assert removed.body["filters"][0] == {**removed.body["filters"][0], "resource_name": "orders", "principal": None}
    assert changed.body["configs"] == [{"name": "super.users", "value": "User:root"}]


async def test_the_groups_that_an_update_was_asked_for_with_are_handed_on() -> None:
    with ScriptedServer() as server:
        async with store_on(server, reply(results=[CREATED], token=TOKEN)) as store:
            await written(store, replace(create(topic("orders")), groups=groups_of(["pii", "eng"])))
        made = server.seen[1]
    assert made.body["context"]["groups"] == ["eng", "pii"]


async def test_what_became_of_an_update_is_said_or_that_nobody_knows(subtests: pytest.Subtests) -> None:
    cases: Iterable[tuple[Step, type[ApiException], str]] = [
        (problem(412, "INVALID_UPDATE_VERSION", "it has changed"), InvalidUpdateVersionException, "it has changed"),
        (problem(503, "COORDINATOR_NOT_AVAILABLE", "no database"), StoreUnavailableException, "no database"),
        (problem(401, "AUTHENTICATION_FAILED", "no"), StoreUnavailableException, "credentials"),
        (Answer(404, b"not here"), StoreUnavailableException, "answers with status 404, but not as Klamm does"),
        (Answer(502, b"<html>"), RequestTimedOutException, "unknown"),
        (Answer(200, b"<html>"), RequestTimedOutException, "unknown"),
        (reply(results=[], token=TOKEN), RequestTimedOutException, "unknown"),
        (reply(results=[CREATED], token="x"), RequestTimedOutException, "unknown"),
        (reply(results=[CREATED, CREATED], token=TOKEN), RequestTimedOutException, "unknown"),
        (hang_up, RequestTimedOutException, "unknown"),
    ]
    for answer, expected, words in cases:
        with subtests.test(answer=answer, expected=expected, words=words), ScriptedServer() as server:
            async with store_on(server, answer) as store:
                try:
                    outcome = await written(store, create(topic("orders")))
                except StoreUnavailableException as fault:
                    outcome = fault
                assert isinstance(outcome, expected), outcome
                assert words in outcome.message
            assert len(server.seen) == 2, "an update is asked for once"


async def test_a_token_is_read_for_each_request_and_never_from_a_file_that_others_can_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    first, second = plant("planted-first-token"), plant("planted-second-token")
    file.write_text(f"{first}\n")
    with ScriptedServer() as server:
        async with store_on(server, reply(results=[CREATED], token=TOKEN), token_file=file) as store:
            file.write_text(f"{second}\n")
            await written(store, create(topic("orders")))
            assert [each.headers["authorization"] for each in server.seen] == [f"Bearer {first}", f"Bearer {second}"]
            file.chmod(0o640)
            with pytest.raises(StoreUnavailableException) as refused:
                await written(store, create(topic("orders")))
            assert refused.value.message == (
                f"upstream.token.file: other users can read or change the token in `{file}` (mode 0640); "
                "restrict it to its owner: chmod 600"
            )
        assert len(server.seen) == 2, "nothing is sent"
