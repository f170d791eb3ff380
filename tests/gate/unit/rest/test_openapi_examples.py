"""Every operation of the document has an example, and a service with examples/acls.json says that it is true."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.core.kafka.bindings import AclBinding
from app.formats.feed_events import Bookmark, Transaction, decode
from app.rest.openapi import build_openapi
from tests.klamm import ADMIN, InProcess, in_process

DOCUMENT = build_openapi()
ACLS = json.loads((Path(__file__).parents[4] / "examples" / "acls.json").read_text(encoding="utf-8"))
CALLS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def same_each_time(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The same without what a store makes up: ids, the epoch in tokens, the cluster's id."""
    if isinstance(value, dict):
        return {key: "made up" if key == "cluster_id" and each else same_each_time(each) for key, each in value.items()}
    if isinstance(value, list):
        return [same_each_time(each) for each in value]
    return _UUID.sub("made up", value) if isinstance(value, str) else value


def content_of(part: dict[str, Any]) -> tuple[str, Any]:
    ((media_type, content),) = part["content"].items()
    return media_type, content["example"]


async def asked(service: InProcess, operation_id: str) -> httpx.Response:
    """What the service answers to the example of this operation."""
    method, path, operation = CALLS[operation_id]
    for each in operation.get("parameters", ()):
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", each["example"])
    if operation_id == "getAcl":
        path = f"/v1/acls/{await id_here(service, operation['responses']['200'])}"
    if method == "POST":
        return await service.send(path, content_of(operation["requestBody"])[1])
    return await service.client.request(method, path)


async def id_here(service: InProcess, response: dict[str, Any]) -> str:
    """The id that the example's ACL has in this store."""
    fields = {key: each for key, each in content_of(response)[1].items() if key in AclBinding.__annotations__}
    found = (await service.send("/v1/acls/search", {"context": ADMIN, "filter": fields})).json()["acls"]
    (acl,) = found
    return str(acl["id"])


async def test_the_example_is_what_a_service_with_the_examples_acls_answers(subtests: pytest.Subtests) -> None:
    for operation_id in sorted(CALLS.keys() - {"watch"}):
        with subtests.test(operation_id=operation_id):
            media_type, expected = content_of(CALLS[operation_id][2]["responses"]["200"])
            async with in_process() as service:
                assert (await service.send("/v1/acls", ACLS)).status_code == 200
                reply = await asked(service, operation_id)
            assert reply.status_code == 200, reply.text
            assert reply.headers["content-type"].partition(";")[0] == media_type
            if media_type == "application/json":
                assert same_each_time(reply.json()) == same_each_time(expected)
            elif operation_id == "metrics":
                assert expected.splitlines()
                assert set(expected.splitlines()) <= set(reply.text.splitlines())
            else:
                assert reply.text == expected


def strings(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from strings(each)


def test_what_is_made_up_has_the_form_of_the_real_thing() -> None:
    examples = [content_of(operation["responses"]["200"])[1] for _, _, operation in CALLS.values()]
    tokens = {each["token"].partition(":")[0] for each in examples if isinstance(each, dict) and "token" in each}
    assert len(tokens) == 1, "all replies are of one store"
    ids = [word for each in examples for word in strings(each) if _UUID.fullmatch(word)]
    assert ids
    assert not tokens & set(ids)
    cluster_id = next(each["cluster_id"] for each in examples if isinstance(each, dict) and "cluster_id" in each)
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", cluster_id)


def test_no_field_of_a_body_is_without_words() -> None:
    """Where a field says nothing of itself, its name or its schema must: words of Kafka's, ids and results."""
    plain = {"resource_type", "pattern_type", "operation", "permission_type", "listener_name", "broker_id", "port"}
    silent = {
        (name, field)
        for name, schema in DOCUMENT["components"]["schemas"].items()
        for field, described in schema.get("properties", {}).items()
        if "description" not in described and "$ref" not in json.dumps(described) and field not in plain
    }
    assert not silent


def test_the_example_of_watch_consists_of_its_events() -> None:
    _, example = content_of(CALLS["watch"][2]["responses"]["200"])
    lines = [line.removeprefix("data: ") for line in example.splitlines() if line.startswith("data: ")]
    assert [type(decode(line.encode())) for line in lines] == [Transaction, Bookmark]
