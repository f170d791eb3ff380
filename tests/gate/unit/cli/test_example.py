import json
import shlex
from collections import Counter
from pathlib import Path

import httpx
import pytest

from app.cli.example import Example, read_example, show_example
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.validation import validate_new_acl
from app.formats.command_errors import UsageError
from tests.images import binding_of
from tests.klamm import in_process

ACLS = Path(__file__).parents[4] / "examples" / "acls.json"
BASE_URL = "http://localhost:8080"


def test_the_example_is_a_company_of_some_300_valid_and_distinct_acls() -> None:
    bindings = [binding_of(fields) for fields in read_example(ACLS).acls["bindings"]]
    assert 300 <= len(bindings) <= 360
    assert len(set(bindings)) == len(bindings)
    assert [validate_new_acl(binding) for binding in bindings] == [None] * len(bindings)
    kinds = Counter(binding.permission_type.name for binding in bindings)
    kinds += Counter(binding.pattern_type.name for binding in bindings)
    kinds += Counter(f"type {binding.resource_type.name}" for binding in bindings)
    kinds["wildcard"] = sum(binding.resource_name == "*" for binding in bindings)
    kinds["everybody"] = sum(binding.principal == "User:*" for binding in bindings)
    kinds["network"] = sum("/" in binding.host for binding in bindings)
    kinds["one host"] = sum(binding.host != "*" and "/" not in binding.host for binding in bindings)
    assert len(kinds) >= 13
    assert min(kinds.values()) >= 1
    assert kinds["DENY"] >= 10
    assert kinds["network"] >= 50


async def test_an_empty_store_is_loaded_and_three_decisions_are_told() -> None:
    told: list[str] = []
    async with in_process(startup=AuthorizerConfig(super_users=frozenset({"User:admin"}))) as service:
        transport = httpx.ASGITransport(service.app)
        await show_example(read_example(ACLS), BASE_URL, told.append, transport=transport)
        assert service.authorizer.image.acl_count == len(read_example(ACLS).acls["bindings"])
    loaded, *decisions = told[0].split("\n\n")
    assert loaded == "Loaded 348 ACLs of the example into the empty store."
    assert [decision.partition(":")[0] for decision in decisions] == ["ALLOWED", "DENIED", "ALLOWED"]
    for decision, (shows, request) in zip(decisions, read_example(ACLS).questions, strict=True):
        # What is said of a decision is what it is.
        assert shows.partition(" ")[0].strip(":") == decision.partition(":")[0].lower()
        assert shows in decision
        words = shlex.split(decision[decision.index("curl") :])
        assert words[:3] == ["curl", "-s", f"{BASE_URL}/v1/authorize"]
        assert json.loads(words[-1]) == request


async def test_a_store_that_has_acls_is_left_as_it_is() -> None:
    told: list[str] = []
    async with in_process() as service:
        await service.create(read_example(ACLS).acls["bindings"][0])
        transport = httpx.ASGITransport(service.app)
        await show_example(read_example(ACLS), BASE_URL, told.append, transport=transport)
        assert service.authorizer.image.acl_count == 1
    assert told[0].startswith("The store holds 1 ACLs, so the example is not loaded into it.\n\nALLOWED: ")


async def test_who_may_not_create_acls_is_told_so() -> None:
    async with in_process(startup=AuthorizerConfig()) as service:
        with pytest.raises(UsageError, match="/v1/acls answered 403: "):
            await show_example(read_example(ACLS), BASE_URL, print, transport=httpx.ASGITransport(service.app))


async def test_an_acl_of_the_example_that_is_refused_is_told() -> None:
    example = read_example(ACLS)
    broken = Example({**example.acls, "bindings": [{**example.acls["bindings"][0], "resource_name": ""}]}, [])
    async with in_process() as service:
        with pytest.raises(UsageError, match="INVALID_REQUEST: "):
            await show_example(broken, BASE_URL, print, transport=httpx.ASGITransport(service.app))


async def test_a_service_that_does_not_get_ready_is_told() -> None:
    async with in_process(reachable=False) as service:
        with pytest.raises(UsageError, match=r"was not ready within 0\.2 s"):
            await show_example(
                Example({}, []), BASE_URL, print, ready_timeout_s=0.2, transport=httpx.ASGITransport(service.app)
            )


async def test_something_else_than_klamm_is_told() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="It works!", request=request)

    with pytest.raises(UsageError, match="/v1/acls/count answered 200: It works!"):
        await show_example(Example({}, []), BASE_URL, print, transport=httpx.MockTransport(answer))


async def test_nobody_there_is_told() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(UsageError, match=r"the service does not answer: ConnectError\('refused'\)"):
        await show_example(Example({}, []), BASE_URL, print, transport=httpx.MockTransport(answer))


def test_a_missing_example_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--example: can't read `.*acls.json` \(No such file"):
        read_example(tmp_path / "acls.json")


@pytest.mark.parametrize(
    ("acls", "decisions", "told"),
    [
        (b"{", "[]", r"acls\.json` is not JSON in UTF-8 \(Expecting property name .* line 1 column 2"),
        (b"\xff", "[]", r"acls\.json` is not JSON in UTF-8 \("),
        (b"[]", "[]", r"acls\.json` is not a body of createAcls; "),
        (b"{}", "{", r"decisions\.json` is not JSON in UTF-8 \("),
        (b"{}", "[{}]", r"decisions\.json` is not a list of objects with `shows` and `request`; "),
        (b"{}", "[1]", r"decisions\.json` is not a list of objects with `shows` and `request`; "),
        (b"{}", "1", r"decisions\.json` is not a list of objects with `shows` and `request`; "),
    ],
)
def test_the_file_that_is_no_example_is_named(tmp_path: Path, acls: bytes, decisions: str, told: str) -> None:
    (tmp_path / "acls.json").write_bytes(acls)
    (tmp_path / "decisions.json").write_text(decisions)
    with pytest.raises(UsageError, match=rf"^--example: `.*{told}"):
        read_example(tmp_path / "acls.json")
