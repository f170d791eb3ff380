"""`at_least`: every call answers from the state of a token or a later one, or says that it can't."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import AlterConfigs, CreateAcls, DeleteAcls
from app.core.token import Token
from tests.gate.unit.rest.test_bad_input import BODIES, check_problem
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl
from tests.updates import binding, new

GETS = ("/v1/acls/count", "/v1/acls/{id}", "/v1/configs")
EVERY_CALL = (*(("POST", path) for path in BODIES), *(("GET", path) for path in GETS))


async def ask(service: InProcess, method: str, path: str, at_least: str) -> Any:  # noqa: ANN401 - a reply
    """This call with this token, otherwise as its example."""
    if method == "POST":
        return await service.send(path, {**BODIES[path], "at_least": at_least})
    acl_id = str(UUID(bytes=next(iter(service.store.tables.acls.values())).id.bytes))
    return await service.client.get(path.replace("{id}", acl_id), params={"at_least": at_least})


def later(service: InProcess, by: int = 0) -> str:
    return str(Token(service.store.epoch, service.store.tables.last_offset + by))


async def test_what_is_no_token_is_refused(subtests: pytest.Subtests, service: InProcess) -> None:
    for method, path in EVERY_CALL:
        with subtests.test(method=method, path=path):
            await service.create(acl("orders"))
            check_problem(await ask(service, method, path, "nonsense"), 400)


async def test_a_token_of_another_epoch_is_refused(subtests: pytest.Subtests, service: InProcess) -> None:
    for method, path in EVERY_CALL:
        with subtests.test(method=method, path=path):
            await service.create(acl("orders"))
            service.give_up_soon()
            problem = check_problem(await ask(service, method, path, f"{uuid4()}:0"), 409)
            assert problem["code"] == "TOKEN_EPOCH_MISMATCH"


async def test_a_state_that_does_not_come_is_said_to_be_missing(subtests: pytest.Subtests, service: InProcess) -> None:
    for method, path in EVERY_CALL:
        with subtests.test(method=method, path=path):
            await service.create(acl("orders"))
            service.give_up_soon()
            problem = check_problem(await ask(service, method, path, later(service, by=1)), 503)
            assert problem["code"] == "OFFSET_NOT_AVAILABLE"


async def test_the_state_of_this_moment_is_answered_from(subtests: pytest.Subtests, service: InProcess) -> None:
    for method, path in EVERY_CALL:
        with subtests.test(method=method, path=path):
            await service.create(acl("orders"))
            reply = await ask(service, method, path, later(service))
            assert reply.status_code == 200, reply.text


@pytest.mark.parametrize("path", GETS)
async def test_a_parameter_that_comes_twice_is_refused(service: InProcess, path: str) -> None:
    await service.create(acl("orders"))
    reply = await service.client.get(path.replace("{id}", str(uuid4())), params={"at_least": ["a", "b"]})
    assert "more than once" in check_problem(reply, 400)["detail"]


async def search(service: InProcess, **more: object) -> Any:  # noqa: ANN401 - a reply
    async with asyncio.timeout(40):
        return await service.send("/v1/acls/search", {"context": ADMIN, "filter": {}, **more})


async def test_a_search_waits_as_long_as_it_says(service: InProcess) -> None:
    await service.create(acl("orders"))
    # The replica's own limit is a minute.
    problem = check_problem(await search(service, at_least=later(service, by=1), timeout_ms=10), 503)
    assert problem["code"] == "OFFSET_NOT_AVAILABLE"
    service.give_up_soon()
    waiting = asyncio.create_task(search(service, at_least=later(service, by=1), timeout_ms=300_000))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    service.store.commit([CreateAcls(new([binding(acl("other"))]), "User:test")])
    assert len((await waiting).json()["acls"]) == 2


async def test_a_search_takes_no_longer_than_it_may(service: InProcess) -> None:
    await service.create(acl("orders"))
    problem = check_problem(await search(service, timeout_ms=0), 504)
    assert (problem["code"], problem["error_code"], problem["retriable"]) == ("REQUEST_TIMED_OUT", 7, True)
    assert "`timeout_ms`" in problem["detail"]
    for more in ({"timeout_ms": 300_000}, {"timeout_ms": None}, {"timeout_ms": 0, "at": later(service)}):
        assert len((await search(service, **more)).json()["acls"]) == 1


async def test_everybody_reads_what_was_written_elsewhere(service: InProcess) -> None:
    """The writer is another process: this replica has not looked when it is asked."""
    group = binding(acl("g", operation="DESCRIBE", resource_type="GROUP"))
    for at in range(20):
        service.store.commit([CreateAcls(new([binding(acl(f"t{at}")), binding(acl("orders")), group]), "User:test")])
        seen: dict[str, Any] = {"context": ALICE, "at_least": later(service)}
        operations = {"resources": [{"resource_type": "TOPIC", "resource_name": f"t{at}"}]}
        reply = (await service.send("/v1/authorized-operations", {**seen, **operations})).json()
        assert reply["results"][0]["operations"] == ["READ", "DESCRIBE"]
        service.store.commit([DeleteAcls([AclBindingFilter(principal="User:alice")], "User:test")])
        seen["at_least"] = later(service)
        by_type = {"operation": "READ", "resource_type": "TOPIC"}
        assert (await service.send("/v1/authorize-by-resource-type", {**seen, **by_type})).json()["result"] == "DENIED"
        service.store.commit([CreateAcls(new([group]), "User:test")])
        seen["at_least"] = later(service)
        assert (await service.send("/v1/list-groups", {**seen, "groups": ["g", "h"]})).json()["groups"] == ["g"]
        service.store.commit([CreateAcls(new([binding(acl("orders"))]), "User:test")])
        seen["at_least"] = later(service)
        search = {**seen, "context": ADMIN, "filter": {"resource_name": "orders"}}
        found = (await service.send("/v1/acls/search", search)).json()["acls"]
        assert [each["resource_name"] for each in found] == ["orders"]
        one = await service.client.get(f"/v1/acls/{found[0]['id']}", params={"at_least": seen["at_least"]})
        assert one.json() == found[0]
        service.store.commit([DeleteAcls([AclBindingFilter(principal="User:alice")], "User:test")])
        count = await service.client.get("/v1/acls/count", params={"at_least": later(service)})
        assert count.json() == {"acl_count": 0}
        service.store.commit([AlterConfigs([("audit.level", "DEBUG" if at % 2 else "INFO")], "User:test")])
        configs = (await service.client.get("/v1/configs", params={"at_least": later(service)})).json()
        assert {each["name"]: each["value"] for each in configs["configs"]}["audit.level"] == (
            "DEBUG" if at % 2 else "INFO"
        )
        assert await service.authorize(ALICE, READ_ORDERS, at_least=later(service)) == ["DENIED"]
