"""Cursors and tokens that nobody handed out, of another epoch, or from the future."""

import base64
import json
import uuid
from typing import Any

import pytest

from tests.bodies import BODIES, refusal
from tests.klamm import InProcess, acl, context


def cursor_of(values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).rstrip(b"=").decode()


GARBAGE = [
    "", " ", "x", "null", "None", "0", "-1", "=", "====", "AAAA", "%00", "\u00e9", "😀", "../../etc/passwd",
    "' OR 1=1 --", "{}", "[]", '"', "a" * 1_000, "A" * 900_000, "\r\n", "\t", ":", "::", ":0", "1:2", "é:1",
    "!!!", "bnVsbA", "WzFd",
]  # fmt: skip
CURSORS = [
    cursor_of([]),
    cursor_of({}),
    cursor_of(None),
    cursor_of([2, "a", 3, "b", "c", 3]),
    cursor_of([2, "a", 3, "b", "c", 3, 3, 3]),
    cursor_of(["2", "a", 3, "b", "c", 3, 3]),
    cursor_of([True, "a", 3, "b", "c", 3, 3]),
    cursor_of([2.0, "a", 3, "b", "c", 3, 3]),
    cursor_of([10**30, "a", 3, "b", "c", 3, 3]),
    cursor_of([-1, "a", 3, "b", "c", 3, 3]),
    cursor_of([2, None, 3, "b", "c", 3, 3]),
    cursor_of([[[[[]]]]] * 1000),
    cursor_of([2, "a", 3, "b", "c", 3, 3]) + "=",
    cursor_of([2, "a", 3, "b", "c", 3, 3])[:-1],
    base64.b64encode(b"\xff\xfe\xfd").decode(),
    base64.b64encode(b"[" * 100_000).decode(),
    base64.b64encode(b"[NaN,1e999]").decode(),
    base64.b64encode(b"9" * 100_000).decode(),
]


async def test_a_cursor_of_garbage_is_refused(subtests: pytest.Subtests, service: InProcess) -> None:
    for cursor in [*GARBAGE, *CURSORS]:
        with subtests.test(cursor=cursor):
            body = {"context": context(), "filter": {}, "cursor": cursor}
            problem = refusal(await service.client.post("/v1/acls/search", json=body), 400, "INVALID_REQUEST")
            assert "cursor" in problem["detail"]
            assert len(problem["detail"]) < 1000


async def test_a_cursor_goes_on_wherever_its_acl_has_gone(service: InProcess) -> None:
    await service.create(*(acl(f"page-{n}", "User:pages") for n in range(10)))
    body = {"context": context(), "filter": {"principal": "User:pages"}, "limit": 4}

    async def page(**more: object) -> dict[str, Any]:
        reply = await service.send("/v1/acls/search", {**body, **more})
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found

    first = await page()
    gone = {"principal": "User:pages", "resource_name": first["acls"][-1]["resource_name"]}
    removed = await service.send("/v1/acls/delete", {"context": context(), "filters": [gone]})
    assert len(removed.json()["results"][0]["matches"]) == 1
    second = await page(cursor=first["next_cursor"])
    third = await page(cursor=second["next_cursor"])
    seen = [acl["resource_name"] for page in (first, second, third) for acl in page["acls"]]
    assert seen == [f"page-{n}" for n in range(10)]
    assert third["next_cursor"] is None
    # The cursor of another list goes on from its place: it is a place and no more.
    other = await page(filter={}, cursor=second["next_cursor"])
    assert [acl["resource_name"] for acl in other["acls"]][:2] == ["page-8", "page-9"]


TOKENS = [
    "00000000-0000-0000-0000-000000000000",
    "00000000-0000-0000-0000-000000000000:",
    "00000000-0000-0000-0000-000000000000:-1",
    "00000000-0000-0000-0000-000000000000:+1",
    "00000000-0000-0000-0000-000000000000:01",
    "00000000-0000-0000-0000-000000000000:1 ",
    " 00000000-0000-0000-0000-000000000000:1",
    "00000000-0000-0000-0000-000000000000:1\n",
    "00000000-0000-0000-0000-000000000000:1.0",
    "00000000-0000-0000-0000-000000000000:1e3",
    "00000000-0000-0000-0000-000000000000:0x1",
    "00000000-0000-0000-0000-000000000000:1_000",
    "00000000-0000-0000-0000-000000000000:\u0661",
    "00000000-0000-0000-0000-000000000000:9223372036854775808",
    "00000000-0000-0000-0000-000000000000:" + "9" * 100_000,
    "00000000-0000-0000-0000-00000000000g:1",
    "{00000000-0000-0000-0000-000000000000}:1",
    "00000000000000000000000000000000:1",
    "ABCDEF00-0000-0000-0000-000000000000:1",
]


async def test_a_token_of_garbage_is_refused(subtests: pytest.Subtests, service: InProcess) -> None:
    for token in [*GARBAGE, *TOKENS]:
        with subtests.test(token=token):
            body = {**BODIES["/v1/authorize"], "at_least": token}
            problem = refusal(await service.client.post("/v1/authorize", json=body), 400, "INVALID_REQUEST")
            assert "at_least" in problem["detail"]
            assert len(problem["detail"]) < 1000


async def test_a_token_of_another_epoch_is_a_conflict(service: InProcess) -> None:
    for offset in (0, 1, 2**63 - 1):
        body = {**BODIES["/v1/authorize"], "at_least": f"{uuid.uuid4()}:{offset}"}
        problem = refusal(await service.client.post("/v1/authorize", json=body), 409, "TOKEN_EPOCH_MISMATCH")
        assert not problem["retriable"]


async def test_a_token_from_the_future_is_waited_for_in_vain(service: InProcess) -> None:
    await service.create(acl("now"))
    service.give_up_soon()
    epoch, offset = service.store.epoch, service.store.tables.last_offset
    for ahead in (offset + 1, 2**63 - 1):
        body = {**BODIES["/v1/authorize"], "at_least": f"{epoch}:{ahead}"}
        problem = refusal(await service.client.post("/v1/authorize", json=body), 503, "OFFSET_NOT_AVAILABLE")
        assert (problem["error_code"], problem["retriable"]) == (78, True)
