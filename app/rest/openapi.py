"""The OpenAPI document: operations as FastAPI describes them, bodies as their structs say."""

from enum import Enum
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.openapi.utils import get_openapi

from app import __version__
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.verdicts import AuthorizationResult
from app.rest.app import ROUTES
from app.rest.bodies.fields import schema_of_sent
from app.rest.errors import Problem
from app.rest.http.edge import Route
from app.rest.http.streams import SSE

_COMPONENT = "#/components/schemas/{name}"
_ENUMS: dict[type[Enum], str] = {
    AclOperation: "Kafka's ACL operations. ANY is for filters; ALL stands for every operation in an ACL.",
    AclPermissionType: "Whether an ACL allows or denies. ANY is for filters.",
    AuthorizationResult: "The result of a decision (KIP-504).",
    PatternType: "Kafka's pattern types (KIP-290). ANY and MATCH are for filters.",
    ResourceType: "Kafka's resource types. ANY is for filters; UNKNOWN stands for a type added later.",
}
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A static token, or a JWT of a configured issuer."},
    "certificate": {"type": "mutualTLS", "description": "A client certificate with a name that is configured."},
}
_SERVERS = [
    # Generators take the first as their default.
    {"url": "http://127.0.0.1:8080", "description": "The default address of `klamm serve`."},
    {"url": "/", "description": "The service that this document comes from."},
]
_TAGS = [
    {"name": "decisions", "description": "What a caller may do (KIP-504, KIP-430, KIP-231)."},
    {"name": "acls", "description": "Creating, deleting and listing ACLs (KIP-140, KIP-290)."},
    {"name": "service", "description": "Start-up of brokers, and properties that can change (KIP-504)."},
    {"name": "feed", "description": "Following every change as it is made."},
    {"name": "health", "description": "Probes for Kubernetes, and metrics for Prometheus."},
]
_DESCRIPTIONS = {
    "400": "The request is invalid (INVALID_REQUEST, SECURITY_DISABLED, POLICY_VIOLATION)",
    "401": "The caller is not authenticated (SASL_AUTHENTICATION_FAILED)",
    "403": "The caller may not do this, or its principal lacks the right on the cluster (CLUSTER_AUTHORIZATION_FAILED)",
    "404": "Not found (RESOURCE_NOT_FOUND)",
    "408": "The headers or the body did not arrive in time (REQUEST_TIMED_OUT)",
    "409": "The token is not part of the store's history, or the cluster id is another store's (TOKEN_EPOCH_MISMATCH, "
    "TOKEN_EPOCH_INVALID, INCONSISTENT_CLUSTER_ID)",
    "410": "The state or the changes asked for are no longer kept (OFFSET_OUT_OF_RANGE)",
    "412": "The store has changed since the token in if_unchanged_since (INVALID_UPDATE_VERSION)",
    "413": "The body is too large",
    "415": "The body is not application/json",
    "429": "Too many requests at once; try again after Retry-After (OVERLOADED, THROTTLING_QUOTA_EXCEEDED)",
    "431": "The headers are larger than 16 KiB (INVALID_REQUEST)",
    "500": "An unexpected error; its cause is in the service's log (UNKNOWN_SERVER_ERROR)",
    "503": "Unavailable; try again after Retry-After (AUTHORIZER_NOT_READY, STORE_UNAVAILABLE, OFFSET_NOT_AVAILABLE)",
    "504": "The deadline passed; of an update it is unknown whether it was written (REQUEST_TIMED_OUT)",
}


def build_openapi() -> dict[str, Any]:
    """The document, without a database or a running service."""
    routes = [route for route in ROUTES if route.include_in_schema]
    document = get_openapi(
        title="Klamm",
        version=__version__,
        summary="Apache Kafka's Authorizer as a REST service",
        description=(
            "Authorization with the semantics of Apache Kafka 4.4: ACLs in PostgreSQL, decisions from memory. "
            "Refusals are problem+json with Kafka's error names; entries of a batch are answered one by one, in order. "
            "A path that is not listed is answered with 404, and a method that its path does not list with 405 and "
            "Allow. `/`, and `/docs` and `/openapi.json` where enabled, are pages about the service."
        ),
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        contact={"name": "Klamm's maintainers"},
        routes=routes,
        tags=_TAGS,
        servers=_SERVERS,
    )
    # Without callers configured, none is needed; a client that has one sends it.
    document["security"] = [{}, *({name: []} for name in _SECURITY)]
    for route in routes:
        path = document["paths"][route.path_format]
        for method in route.methods:
            path[method.lower()] = _described(route, path[method.lower()])
    document["components"] = {"schemas": _schemas(routes), "securitySchemes": _SECURITY}
    return document


def _described(route: Route, operation: dict[str, Any]) -> dict[str, Any]:
    operation["summary"] = route.name
    responses = operation.pop("responses")
    if route.body_struct is not None:
        content = {"application/json": {"schema": _reference(route.body_struct)}}
        operation["requestBody"] = {"content": content, "required": True}
    if route.reply_struct is not None:
        responses["200"]["content"]["application/json"]["schema"] = _reference(route.reply_struct)
    if route.streams:
        # Client generators don't know NDJSON, which is sent if neither is asked for.
        responses["200"]["content"] = {SSE: {"schema": {"type": "string"}}}
    # FastAPI would answer 422 where parameters are wrong, this service answers 400.
    responses.pop("422", None)
    operation["responses"] = dict(sorted({**_refusals(route), **responses}.items()))
    if not route.needs_caller:
        operation["security"] = []
    _give_an_example(operation, route)
    return operation


def _reference(struct: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": _COMPONENT.format(name=struct.__name__)}


def _refusals(route: Route) -> dict[str, Any]:
    statuses = {400, 408, 429, 431, 500, *route.may_refuse}
    if route.needs_caller:
        statuses |= {401, 403}
    if route.body_struct is not None:
        statuses |= {413, 415, 503}
    content = {"application/problem+json": {"schema": _reference(Problem)}}
    refusals = {str(status): {"description": _DESCRIPTIONS[str(status)], "content": content} for status in statuses}
    if route.body_struct is None and HTTPStatus.BAD_REQUEST not in route.may_refuse:
        description = "The request breaks a rule of HTTP, or is invalid (INVALID_REQUEST, ...)"
        refusals["400"] = {"description": description, "content": content}
    return refusals


def _give_an_example(operation: dict[str, Any], route: Route) -> None:
    example = route.example
    if example is None:
        raise ValueError(f"the route {route.name} has no example, but is in the document")
    (reply,) = operation["responses"]["200"]["content"].values()
    reply["example"] = example.reply
    for each in operation.get("parameters", ()):
        if each["name"] in example.parameters:
            each["example"] = example.parameters[each["name"]]
    if example.request is not None:
        operation["requestBody"]["content"]["application/json"]["example"] = example.request


def _schemas(routes: list[Route]) -> dict[str, Any]:
    bodies = {each for route in routes for each in (route.body_struct, route.reply_struct) if each is not None}
    _, schemas = msgspec.json.schema_components([*bodies, Problem], schema_hook=schema_of_sent, ref_template=_COMPONENT)
    schemas = {name: _tidy(schema) for name, schema in schemas.items()}
    for enum, description in _ENUMS.items():
        schemas[enum.__name__] = {
            "type": "string",
            "enum": list(enum.__members__),
            "title": enum.__name__,
            "description": description,
        }
    return dict(sorted(schemas.items()))


def _tidy(node: Any) -> Any:  # noqa: ANN401 - any part of a JSON document
    """Removes the type that msgspec puts beside a reference, and empty lists of required fields."""
    if isinstance(node, list):
        return [_tidy(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _tidy(each)
        for key, each in node.items()
        if not (key == "type" and "$ref" in node) and not (key == "required" and each == [])
    }
