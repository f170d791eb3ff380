"""The module that starts Klamm for tests: its verbs do and answer the same in each form."""

import ast
import asyncio
import inspect
import sys
from pathlib import Path

import pytest

from tests.callers import CALLERS
from tests.klamm import ADMIN, ROOT, InProcess, Process, acl, action, context, in_process, until, wait_until
from tests.updates import binding, topic
from tests.virtual_time import in_virtual_time, now


async def test_the_verbs_without_a_socket() -> None:
    async with in_process() as klamm:
        assert await klamm.authorize("User:alice", action("orders")) == ["DENIED"]
        done = await klamm.create(acl("orders"), acl("payments", "User:bob", "WRITE", host="10.0.0.1"))
        assert await klamm.authorize("User:alice", action("orders"), at_least=done["token"]) == ["ALLOWED"]
        assert await klamm.authorize(context("User:bob", "10.0.0.1"), action("payments", "WRITE")) == ["ALLOWED"]
        assert [each["resource_name"] for each in await klamm.acls(principal="User:bob")] == ["payments"]
        await klamm.delete({"resource_name": "orders"})
        assert [each["resource_name"] for each in await klamm.acls()] == ["payments"]


async def test_acls_are_found_page_by_page() -> None:
    async with in_process() as klamm:
        await klamm.create(*(acl(f"topic-{number:04}") for number in range(1001)))
        assert [each["resource_name"] for each in await klamm.acls()] == [
            f"topic-{number:04}" for number in range(1001)
        ]


async def test_it_may_know_callers(tmp_path: Path) -> None:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as klamm:
        await klamm.create(acl("orders"))
        question = {"context": context("User:alice"), "actions": [action("orders")]}
        assert set(klamm.tokens) == set(CALLERS)
        assert [
            (await klamm.send("/v1/authorize", question, caller)).status_code for caller in (None, "anyone", "sidecar")
        ] == [401, 200, 403]


async def test_a_store_out_of_reach_is_not_waited_for() -> None:
    async with in_process(reachable=False) as klamm:
        assert (await klamm.post("/v1/authorize", {"context": ADMIN, "actions": []}))["token"] is None
        assert (await klamm.client.get("/readyz")).status_code == 503


def test_each_form_has_the_same_verbs() -> None:
    for verb in ("authorize", "create", "delete", "acls"):
        told = [inspect.signature(getattr(form, verb)).replace(return_annotation="") for form in (InProcess, Process)]
        assert told[0] == told[1], verb


def test_an_acl_is_the_same_in_a_body_and_in_python() -> None:
    assert binding(acl("orders")) == topic("orders")


def test_what_never_comes_true_is_told() -> None:
    with pytest.raises(AssertionError, match="never came true: the moon"):
        wait_until(lambda: False, "the moon", 0)
    with pytest.raises(AssertionError, match="never came true: the sun"):
        asyncio.run(until(lambda: False, "the sun", 0))


@in_virtual_time
async def test_virtual_time_is_waited_for_without_waiting() -> None:
    await until(lambda: now() > 59)


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    imported, seen = set[str](), set[str]()
    waiting = ["tests.klamm"]
    while waiting:
        module = waiting.pop()
        seen.add(module)
        for each in ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text()).body:
            if isinstance(each, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in each.names}
            elif isinstance(each, ast.ImportFrom) and each.module is not None:
                if each.module.startswith("tests.") and each.module not in seen:
                    waiting.append(each.module)
                imported.add(each.module.partition(".")[0])
    assert imported - sys.stdlib_module_names == {"pytest", "tests"}
