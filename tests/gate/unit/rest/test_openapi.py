"""The document that clients are generated from."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import __version__
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.metrics.declared import OPERATIONS
from app.rest.app import ROUTES
from app.rest.openapi import build_openapi
from app.settings.model import Settings
from tests.gate.unit.rest.test_bad_input import BODIES

DOCUMENT = build_openapi()
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
COMMITTED = Path(__file__).parents[4] / "openapi.json"


def operations() -> dict[str, dict[str, Any]]:
    found = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in found}) == len(found)
    return {operation["operationId"]: operation for operation in found}


def nodes(node: object) -> Iterator[dict[str, Any]]:
    """Every object in the document."""
    if isinstance(node, dict):
        yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(each)


def test_the_committed_document_is_the_one_that_the_code_makes() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == json.dumps(DOCUMENT, indent=2) + "\n", "run `make openapi`"


def test_no_two_schemas_have_one_name() -> None:
    """They would be told apart by their modules, and generators for Python refuse such names."""
    assert [name for name in SCHEMAS if not name.isalnum()] == []


def test_the_operations_have_kafkas_names() -> None:
    pages = {"index", "openapi", "docs", "console"}
    assert set(operations()) == set(OPERATIONS) - {"other"} - pages


def test_the_document_says_what_it_is() -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    assert (DOCUMENT["info"]["title"], DOCUMENT["info"]["version"]) == ("Klamm", __version__)
    assert DOCUMENT["info"]["license"] == {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    assert DOCUMENT["info"]["contact"]
    # What generators take for the default is where `klamm serve` listens by default.
    settings = Settings.model_fields
    assert DOCUMENT["servers"][0]["url"] == f"http://{settings['host'].default}:{settings['port'].default}"
    assert [each["url"] for each in DOCUMENT["servers"][1:]] == ["/"]


def test_credentials_may_be_sent_to_all_but_the_probes() -> None:
    assert DOCUMENT["security"] == [{}, {"bearer": []}, {"certificate": []}]
    assert {name: scheme["type"] for name, scheme in DOCUMENT["components"]["securitySchemes"].items()} == {
        "bearer": "http",
        "certificate": "mutualTLS",
    }
    probes = {route.name for route in ROUTES if not route.needs_caller}
    for path in DOCUMENT["paths"].values():
        for operation in path.values():
            is_open = operation["operationId"] in probes
            assert (operation.get("security") == []) == is_open
            assert ({"401", "403"} <= set(operation["responses"])) == (not is_open)
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    assert all(set(operation["tags"]) <= tags for operation in operations().values())


def test_every_reference_leads_somewhere() -> None:
    references = {node["$ref"] for node in nodes(DOCUMENT) if "$ref" in node}
    assert references == {f"#/components/schemas/{name}" for name in SCHEMAS}


def test_every_refusal_is_the_one_error_model(subtests: pytest.Subtests) -> None:
    for name in operations():
        with subtests.test(name=name):
            refusals = {
                status: response
                for status, response in operations()[name]["responses"].items()
                if not status.startswith("2")
            }
            # The last four are the protocol's own, which come on any path.
            assert {"500", "400", "408", "429", "431"} <= set(refusals)
            assert "422" not in refusals
            if "requestBody" in operations()[name]:
                assert {"400", "413", "415", "503"} <= set(refusals)
            for status, response in refusals.items():
                probe = status == "503" and name in ("readyz", "readyzListener", "startupz", "metrics")
                assert list(response["content"]) == ["text/plain" if probe else "application/problem+json"]
                if not probe:
                    assert response["content"]["application/problem+json"]["schema"] == {
                        "$ref": "#/components/schemas/Problem"
                    }


@pytest.mark.parametrize("enum", [AclOperation, AclPermissionType, PatternType, ResourceType])
def test_kafkas_enums_are_named_once_and_whole(
    enum: type[AclOperation | AclPermissionType | PatternType | ResourceType],
) -> None:
    assert SCHEMAS[enum.__name__]["enum"] == [each.name for each in enum]
    assert sum(node.get("enum") == SCHEMAS[enum.__name__]["enum"] for node in nodes(DOCUMENT)) == 1


def test_only_null_is_ever_an_alternative() -> None:
    for node in nodes(DOCUMENT):
        assert "oneOf" not in node
        kinds = [each for each in node.get("anyOf", []) if each != {"type": "null"}]
        assert len(kinds) <= 1, node


def test_bodies_are_objects_by_name() -> None:
    for operation in operations().values():
        for part in (operation.get("requestBody"), operation["responses"]["200"]):
            if part is not None and "application/json" in part["content"]:
                assert set(part["content"]["application/json"]["schema"]) == {"$ref"}


def test_requests_take_no_unknown_fields(subtests: pytest.Subtests) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            reference = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            schema = SCHEMAS[reference.rpartition("/")[2]]
            assert schema["additionalProperties"] is False
            assert set(BODIES[path]) == set(schema["required"])


def test_codes_and_rules_in_answers_are_plain_text() -> None:
    for name in ("AclCreateResult", "AclDeleteResult", "AuthorizedOperationsResult", "AlterConfigsResult", "Problem"):
        code = SCHEMAS[name]["properties"]["code"]
        assert (code["type"], "enum" in code) == ("string", False)
        assert code["description"]
