"""Routes with a body: long lists are read in steps and answered in the documented form."""

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

import pytest

from app.core.kafka.errors import InvalidRequestException
from app.rest.bodies import acl_schemas, acl_wire, schemas
from app.rest.bodies.reading import BodyReader, ModelReader
from app.rest.bodies.strict_json import OFF_LOOP_BYTES
from app.rest.bodies.wire import StructReader
from app.rest.errors import InvalidFieldsException
from tests.unit.rest.harness import ADMIN, Service

BINDING = {"resource_type": "TOPIC", "resource_name": "t", "principal": "User:a", "operation": "READ"}
READER = ModelReader(acl_schemas.CreateAclsRequest)


def body(count: int, wrong_at: int | None = None) -> dict[str, Any]:
    bindings: list[dict[str, object]] = [{**BINDING, "permission_type": "ALLOW"} for _ in range(count)]
    if wrong_at is not None:
        bindings[wrong_at]["host"] = 7
    return {"context": ADMIN, "bindings": bindings}


@pytest.mark.parametrize("count", [0, 1, 200, 201, 1_000])
async def test_a_list_of_any_length_is_the_model_that_pydantic_makes(count: int) -> None:
    value = body(count)
    assert await READER.read(value) == acl_schemas.CreateAclsRequest.model_validate(value)


@pytest.mark.parametrize(("count", "at"), [(5, 3), (200, 199), (201, 200), (1_000, 0), (1_000, 777)])
async def test_the_wrong_entry_of_a_list_of_any_length_is_named(count: int, at: int) -> None:
    with pytest.raises(InvalidFieldsException) as refusal:
        await READER.read(body(count, wrong_at=at))
    assert [each.pointer for each in refusal.value.errors] == [f"/bindings/{at}/host"]


async def test_what_is_wrong_beside_a_long_list_is_named() -> None:
    with pytest.raises(InvalidFieldsException) as refusal:
        await READER.read({**body(1_000), "timeout_ms": "soon", "more": 1})
    assert {each.pointer for each in refusal.value.errors} == {"/timeout_ms", "/more"}


@pytest.mark.parametrize("wrong", [None, 7, "text", {"a": 1}])
async def test_what_is_no_list_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidFieldsException) as refusal:
        await READER.read({"context": ADMIN, "bindings": wrong})
    assert [each.pointer for each in refusal.value.errors] == ["/bindings"]


async def test_lists_of_plain_texts_are_read_too() -> None:
    value = {"context": ADMIN, "groups": [f"group-{at}" for at in range(500)]}
    assert len((await ModelReader(schemas.ListGroupsRequest).read(value)).groups) == 500


async def test_replies_have_the_documented_form(service: Service) -> None:
    asked = [{**BINDING, "permission_type": "ALLOW", "resource_name": f"t{at}"} for at in range(300)]
    refused = {**BINDING, "permission_type": "ALLOW", "resource_name": ""}
    created = await service.client.post("/v1/acls", json={"context": ADMIN, "bindings": [*asked, refused]})
    found = await service.client.post("/v1/acls/search", json={"context": ADMIN, "filter": {}, "limit": 1_000})
    deleted = await service.client.post(
        "/v1/acls/delete",
        json={"context": ADMIN, "filters": [{"resource_type": "TOPIC"}, {"operation": "NONSENSE"}]},
    )
    for answer, model in (
        (created, acl_schemas.CreateAclsResponse),
        (found, acl_schemas.AclsResponse),
        (deleted, acl_schemas.DeleteAclsResponse),
    ):
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        # Nothing more, nothing less, in the documented order.
        documented = model.model_validate_json(answer.content)
        assert json.loads(answer.text) == documented.model_dump(mode="json")
        assert list(json.loads(answer.text)) == list(model.model_fields)
    assert len(created.json()["results"]) == 301
    assert len(deleted.json()["results"][0]["matches"]) == 300


async def turns_while(work: Awaitable[object]) -> int:
    """How often others had a turn of the event loop meanwhile."""
    turns, done = 0, asyncio.ensure_future(work)
    while not done.done():
        turns += 1
        await asyncio.sleep(0)
    assert isinstance(done.exception(), InvalidFieldsException)
    return turns


async def test_a_long_list_is_refused_in_steps_too() -> None:
    body = json.dumps({"context": ADMIN, "filters": [*[{}] * 50_000, {"host": 7}]}).encode()
    assert len(body) < OFF_LOOP_BYTES
    reader = BodyReader(StructReader(acl_wire.DeleteAclsRequest).read, acl_schemas.DeleteAclsRequest)
    assert await turns_while(reader.read(body)) > 50_000 // 200 // 2


@pytest.mark.parametrize("entry", ["{}", '{"host":null}'])
async def test_no_more_entries_are_read_than_any_body_may_hold(entry: str) -> None:
    read = StructReader(acl_wire.DeleteAclsRequest).read
    head = f'{{"context":{json.dumps(ADMIN)},"filters":['
    assert len(read(f"{head}{','.join([entry] * 99_000)}]}}".encode()).filters) == 99_000
    with pytest.raises(InvalidRequestException, match="too many values"):
        read(f"{head}{','.join([entry] * 100_000)}]}}".encode())
