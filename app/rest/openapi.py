"""The OpenAPI document: FastAPI's, with enums and the error model named."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from app import __version__
from app.rest.app import ROUTERS
from app.rest.bodies.examples import EXAMPLES
from app.rest.bodies.schemas import Reply, Request
from app.rest.bodies.service_schemas import Problem
from app.rest.bodies.words import ENUM_DESCRIPTIONS
from app.rest.callers.roles import OPEN_TO_ALL

_NOT_USED = ("HTTPValidationError", "ValidationError")
_COMPONENT = "#/components/schemas/{model}"
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A static token, or a JWT of a configured issuer."},
    "certificate": {"type": "mutualTLS", "description": "A client certificate one of whose names is configured."},
}
_SERVERS = [
    # Generators take the first for their default.
    {"url": "http://127.0.0.1:8080", "description": "Where `klamm serve` listens unless it is told otherwise."},
    {"url": "/", "description": "The service that this document comes from."},
]
_TAGS = [
    {"name": "decisions", "description": "What a caller may do (KIP-504, KIP-430, KIP-231)."},
    {"name": "acls", "description": "Creating, deleting and listing ACLs (KIP-140, KIP-290)."},
    {"name": "service", "description": "Start-up of brokers, and properties that can change (KIP-504)."},
    {"name": "health", "description": "Probes, as Kubernetes asks for them, and the page that Prometheus reads."},
]
_ON_ANY_PATH = {
    "400": "The request breaks a rule of HTTP or of its own form (INVALID_REQUEST, ...)",
    "408": "Head or body did not arrive in time (REQUEST_TIMED_OUT)",
    "429": "Too much at once; try again after Retry-After (OVERLOADED, THROTTLING_QUOTA_EXCEEDED)",
    "431": "The head is larger than 16 KiB (INVALID_REQUEST)",
}
"""What the protocol itself may answer, before it looks at the path."""


def build_openapi() -> dict[str, Any]:
    """The document, without a database or a running service."""
    app = FastAPI(openapi_url=None)
    for router in ROUTERS:
        app.include_router(router)
    document = get_openapi(
        title="Klamm",
        version=__version__,
        summary="Apache Kafka's Authorizer as a REST service",
        description=(
            "Authorization with the meaning of Apache Kafka 4.4: ACLs in PostgreSQL, decisions from memory. "
            "Refusals are problem+json with Kafka's error names; entries of a batch are answered one by one, in order. "
            "A path that is not listed is 404, a method that a path doesn't list 405 with Allow; `/`, and `/docs` and "
            "`/openapi.json` where they are on, are pages about the service."
        ),
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        contact={"name": "Klamm's maintainers"},
        routes=app.routes,
        tags=_TAGS,
        servers=_SERVERS,
        separate_input_output_schemas=False,
    )
    # Without callers configured, none is needed; a client that has one sends it.
    document["security"] = [{}, *({name: []} for name in _SECURITY)]
    for path in document["paths"].values():
        for operation in path.values():
            operation["summary"] = operation["operationId"]
            # Refusals of a body are 400 here, and always a Problem.
            operation["responses"].pop("422", None)
            _say_what_comes_on_any_path(operation["responses"])
            if operation["operationId"] in OPEN_TO_ALL:
                operation["security"] = []
            _give_an_example(operation)
    generated = document["components"]["schemas"]
    schemas = {**generated, **_schemas_of(Problem)}
    schemas = {name: schema for name, schema in schemas.items() if name not in _NOT_USED}
    document["components"]["securitySchemes"] = _SECURITY
    document["components"]["schemas"] = dict(sorted({**_with_named_enums(schemas), **_enum_schemas()}.items()))
    return document


def _say_what_comes_on_any_path(responses: dict[str, Any]) -> None:
    content = {"application/problem+json": {"schema": {"$ref": _COMPONENT.format(model="Problem")}}}
    for status, description in _ON_ANY_PATH.items():
        responses.setdefault(status, {"description": description, "content": content})
    # Routes with a body speak of it only; a head may come late as well.
    responses["408"]["description"] = _ON_ANY_PATH["408"]
    for status in sorted(responses):
        responses[status] = responses.pop(status)


def _give_an_example(operation: dict[str, Any]) -> None:
    example = EXAMPLES[operation["operationId"]]
    (reply,) = operation["responses"]["200"]["content"].values()
    reply["example"] = example.reply
    for each in operation.get("parameters", ()):
        if each["name"] in example.parameters:
            each["example"] = example.parameters[each["name"]]
    if example.request is not None:
        operation["requestBody"]["content"]["application/json"]["example"] = example.request


def _schemas_of(*models: type[Request] | type[Reply]) -> dict[str, Any]:
    _, document = models_json_schema([(model, "validation") for model in models], ref_template=_COMPONENT)
    schemas: dict[str, Any] = document["$defs"]
    return schemas


def _enum_schemas() -> dict[str, Any]:
    return {
        enum.__name__: {
            "type": "string",
            "enum": list(enum.__members__),
            "title": enum.__name__,
            "description": description,
        }
        for enum, description in ENUM_DESCRIPTIONS.items()
    }


def _with_named_enums(node: Any) -> Any:  # noqa: ANN401 - any part of a JSON document
    """The same with a reference wherever one of Kafka's enums stands."""
    if isinstance(node, list):
        return [_with_named_enums(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "enum" in node and node.get("title") in _NAMED_ENUMS:
        rest = {key: node[key] for key in ("description", "default") if key in node}
        return {"$ref": _COMPONENT.format(model=node["title"]), **rest}
    return {key: _with_named_enums(each) for key, each in node.items()}


_NAMED_ENUMS = {enum.__name__ for enum in ENUM_DESCRIPTIONS}
