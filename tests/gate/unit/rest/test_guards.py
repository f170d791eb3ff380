"""`if_unchanged_since` on createAcls, deleteAcls and alterConfigs over HTTP."""

from uuid import UUID

import pytest

from tests.klamm import ADMIN, InProcess, acl

BINDING = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "principal": "User:alice",
    "operation": "READ",
    "permission_type": "ALLOW",
}
CALLS = [
    ("/v1/acls", {"bindings": [BINDING]}),
    ("/v1/acls/delete", {"filters": [{}]}),
    ("/v1/configs", {"configs": [{"name": "audit.level", "value": "DEBUG"}]}),
]


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_a_guard_that_holds_is_written_and_the_reply_says_where_it_left_the_store(
    service: InProcess, path: str, body: dict[str, object]
) -> None:
    await service.create(acl("other", operation="WRITE"))
    guard = f"{service.store.epoch}:1"
    reply = await service.send(path, {"context": ADMIN, **body, "if_unchanged_since": guard})
    assert reply.status_code == 200, reply.text
    assert reply.json()["token"] == f"{service.store.epoch}:2"


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_a_guard_that_does_not_hold_is_412_and_says_where_the_store_stands(
    service: InProcess, path: str, body: dict[str, object]
) -> None:
    await service.create(acl("other", operation="WRITE"))
    epoch = service.store.epoch
    reply = await service.send(path, {"context": ADMIN, **body, "if_unchanged_since": f"{epoch}:0"})
    assert reply.status_code == 412
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json() == {
        "type": "urn:klamm:error:INVALID_UPDATE_VERSION",
        "title": "Invalid update version",
        "status": 412,
        "detail": f"the store is at `{epoch}:1`, not at `{epoch}:0`: it has changed since, so nothing was "
        "written; read again, and send the token of that reply",
        "code": "INVALID_UPDATE_VERSION",
        "error_code": 95,
        "retriable": False,
    }
    assert service.store.tables.last_offset == 1


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_another_epochs_guard_is_409_and_garbage_400(
    service: InProcess, path: str, body: dict[str, object]
) -> None:
    for guard, status, code in (
        (f"{UUID(int=5)}:0", 409, "TOKEN_EPOCH_MISMATCH"),
        ("garbage", 400, "INVALID_REQUEST"),
        (7, 400, "INVALID_REQUEST"),
    ):
        reply = await service.send(path, {"context": ADMIN, **body, "if_unchanged_since": guard})
        assert (reply.status_code, reply.json()["code"]) == (status, code), guard
        assert "if_unchanged_since" in reply.text
    assert service.store.tables.last_offset == 0


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_null_is_no_guard(service: InProcess, path: str, body: dict[str, object]) -> None:
    reply = await service.send(path, {"context": ADMIN, **body, "if_unchanged_since": None})
    assert reply.status_code == 200
