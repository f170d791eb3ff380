"""authorize and the decision log: every decision once, with its ACL, by both ways to an answer; and nothing else."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.core.authorize import Authorization
from app.core.token import Token
from app.core.verdicts import Verdict
from app.logs.decision_files import DecisionFiles, FileBounds
from app.logs.decision_log import DecisionLog
from app.rest.app import AppOptions, RestApp, create_rest_app
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl, in_process

JSON = [(b"host", b"localhost"), (b"content-type", b"application/json")]
SECRET = {**READ_ORDERS, "resource_name": "secret"}
UNKNOWN = {**READ_ORDERS, "resource_name": "unknown"}
ACLS = [
    acl("orders"),
    acl("ord", pattern_type="PREFIXED"),
    acl("secret"),
    acl("secret", "User:*", "ALL", permission_type="DENY"),
]


class Logged:
    """A service with a decision log, asked by the fast path or as an ASGI application."""

    def __init__(self, service: InProcess, folder: Path, sample: float) -> None:
        bounds = FileBounds(folder=folder, rotate_bytes=1 << 20, rotate_s=60, retention_bytes=1 << 30)
        self.log = DecisionLog(DecisionFiles(bounds, service.metrics), service.metrics, sample=sample, linger_s=0.001)
        around = AppOptions(decision_log=self.log)
        self.app: RestApp = create_rest_app(service.authorizer, service.metrics, service.audit, around)
        self.service = service
        self._folder = folder

    async def post(self, body: object, path: str = "/v1/authorize") -> httpx.Response:
        """By the long way."""
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post(path, json=body)

    def answer(self, body: object) -> bool:
        """By the fast path; whether it has answered."""
        return self.app.answer(JSON, json.dumps(body).encode(), ()) is not None

    async def ids(self) -> dict[tuple[str, str], str]:
        """The id of each ACL, by its pattern's name and its permission."""
        return {(each["resource_name"], each["permission_type"]): each["id"] for each in await self.service.acls()}

    def lines(self) -> list[dict[str, Any]]:
        """Every line; nothing is logged after it."""
        self.log.start()
        self.log.close(60)
        texts = [each.read_text() for each in sorted(self._folder.glob("decisions-*.jsonl"))]
        return [json.loads(line) for line in "".join(texts).splitlines()]


@asynccontextmanager
async def logged(folder: Path, *, sample: float = 1.0, **more: Any) -> AsyncIterator[Logged]:  # noqa: ANN401 - of in_process
    async with in_process(**more) as service:
        yield Logged(service, folder, sample)


def asking(*actions: object, context: object = ALICE, **more: object) -> dict[str, object]:
    return {"context": context, "actions": list(actions), **more}


@pytest.mark.parametrize("fast", [True, False])
async def test_each_decision_has_a_line_with_the_acl_that_decided(
    fast: bool,  # noqa: FBT001 - a parameter of a table
    tmp_path: Path,
) -> None:
    async with logged(tmp_path) as it:
        await it.service.create(*ACLS)
        of_broker = {"listener_name": "CLIENT", "security_protocol": "SSL", "request_version": 17, "correlation_id": 9}
        body = asking(READ_ORDERS, SECRET, UNKNOWN, context={**ALICE, **of_broker, "client_id": None})
        assert it.answer(body) if fast else (await it.post(body)).status_code == 200
        found = it.lines()
        ids = await it.ids()
        assert [(line["resource_name"], line["result"], line["rule"], line["acl_id"]) for line in found] == [
            ("orders", "ALLOWED", "MatchingAcl", ids["orders", "ALLOW"]),
            ("secret", "DENIED", "MatchingAcl", ids["secret", "DENY"]),
            ("unknown", "DENIED", "DefaultDeny", None),
        ]
        for line in found:
            assert (line["epoch"], line["offset"]) == (str(it.service.store.epoch), 4)
            assert (line["principal"], line["host"]) == ("User:alice", "10.1.2.3")
            assert (line["request_type"], line["client_id"], line["caller"]) == (None, None, None)
            assert {name: line[name] for name in of_broker} == of_broker


@pytest.mark.parametrize("fast", [True, False])
async def test_groups_are_logged_as_the_context_named_them_and_by_their_acl(
    fast: bool,  # noqa: FBT001 - a parameter of a table
    tmp_path: Path,
) -> None:
    async with logged(tmp_path) as it:
        await it.service.create(acl("orders", "Group:pii"))
        for groups in (["x", "pii"], None, ["x"]):
            body = asking(READ_ORDERS, context={**ALICE, "groups": groups})
            assert it.answer(body) if fast else (await it.post(body)).status_code == 200
        found = it.lines()
        assert [(line.get("groups"), line["result"], line["acl_id"] is not None) for line in found] == [
            (["x", "pii"], "ALLOWED", True),
            (None, "DENIED", False),
            (["x"], "DENIED", False),
        ]


async def test_a_host_is_that_which_acls_are_compared_with(tmp_path: Path) -> None:
    async with logged(tmp_path) as it:
        assert it.answer(asking(READ_ORDERS, context={**ALICE, "client_address": "::1"}))
        assert [line["host"] for line in it.lines()] == ["0:0:0:0:0:0:0:1"]


async def test_what_waited_for_its_offset_is_logged_at_the_offset_that_decided(tmp_path: Path) -> None:
    async with logged(tmp_path) as it:
        await it.service.create(*ACLS)
        body = asking(READ_ORDERS, at_least=str(Token(it.service.store.epoch, 3)))
        assert not it.answer(body)
        assert (await it.post(body)).status_code == 200
        assert [(line["offset"], line["result"]) for line in it.lines()] == [(4, "ALLOWED")]


async def test_super_users_are_logged_before_the_first_load(tmp_path: Path) -> None:
    async with logged(tmp_path, reachable=False) as it:
        assert it.answer(asking(READ_ORDERS, context=ADMIN))
        assert (await it.post(asking(READ_ORDERS))).status_code == 503
        [line] = it.lines()
        assert [line[key] for key in ("epoch", "offset", "result", "rule")] == ["", -1, "ALLOWED", "SuperUser"]


async def test_without_an_authorizer_everybody_is_logged_as_a_super_user(tmp_path: Path) -> None:
    async with logged(tmp_path, enabled=False) as it:
        assert it.answer(asking(READ_ORDERS))
        assert [(line["result"], line["rule"]) for line in it.lines()] == [("ALLOWED", "SuperUser")]


async def test_refused_requests_and_other_calls_are_not_logged(tmp_path: Path) -> None:
    async with logged(tmp_path) as it:
        bodies: list[object] = [
            asking({**READ_ORDERS, "operation": "FLY"}),
            asking(READ_ORDERS, context={**ALICE, "x": 1}),
            [],
        ]
        for body in bodies:
            assert not it.answer(body)
            assert (await it.post(body)).status_code == 400
        one = {"resource_type": "TOPIC", "resource_name": "orders"}
        for path, more in (
            ("/v1/authorized-operations", {"resources": [one]}),
            ("/v1/authorize-by-resource-type", {"operation": "READ", "resource_type": "TOPIC"}),
            ("/v1/acls/search", {"filter": {}, "limit": 1}),
        ):
            reply = await it.post({"context": ADMIN, **more}, path)
            assert reply.status_code == 200, reply.text
        assert it.lines() == []


async def test_flags_for_the_audit_log_do_not_concern_it(tmp_path: Path) -> None:
    async with logged(tmp_path) as it:
        assert it.answer(asking({**READ_ORDERS, "log_if_denied": False, "log_if_allowed": False}))
        assert len(it.lines()) == 1
        assert it.service.audit_lines() == []


async def test_the_deciding_acl_is_looked_for_once_for_both_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for = []
    real = Authorization.deciding_row

    def counting(self: Authorization, verdict: Verdict, operation: int, resource_type: int, name: str) -> int | None:
        looked_for.append(name)
        return real(self, verdict, operation, resource_type, name)

    async with logged(tmp_path) as it:
        await it.service.create(*ACLS)
        monkeypatch.setattr(Authorization, "deciding_row", counting)
        assert it.answer(asking(READ_ORDERS, SECRET))
        assert looked_for == ["orders", "secret"]
        assert "acl=StandardAcl(" in "".join(it.service.audit_lines())
        assert [line["acl_id"] is not None for line in it.lines()] == [True, True]


async def test_what_is_not_in_the_sample_is_audited_all_the_same(tmp_path: Path) -> None:
    async with logged(tmp_path, sample=0.5) as it:
        await it.service.create(*ACLS)
        it.log._draw = lambda: 0.9
        assert it.answer(asking(SECRET))
        assert it.lines() == []
        assert "acl=StandardAcl(" in "".join(it.service.audit_lines())


async def test_an_image_that_changes_before_the_line_is_written_changes_no_line(tmp_path: Path) -> None:
    async with logged(tmp_path) as it:
        await it.service.create(*ACLS[:1])
        before = await it.ids()
        assert it.answer(asking(READ_ORDERS))
        await it.service.create({**ACLS[1], "permission_type": "DENY"})
        assert it.answer(asking(READ_ORDERS))
        after = await it.ids()
        first, second = it.lines()
        assert (first["offset"], first["result"], first["acl_id"]) == (1, "ALLOWED", before["orders", "ALLOW"])
        assert (second["offset"], second["result"]) == (2, "DENIED")
        assert second["acl_id"] == after["ord", "DENY"]
