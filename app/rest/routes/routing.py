"""How routes are declared: one class for all of them, and the refusals that they have in common."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter

from app.rest.http.edge import Route


def strict_router(tag: str) -> APIRouter:
    """A router of such routes under this tag; a route's name is its operationId."""
    return APIRouter(route_class=Route, tags=[tag], generate_unique_id_function=lambda route: route.name)


def documented_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route for the OpenAPI document, all of one shape."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _DESCRIPTIONS[status], "content": content} for status in statuses}


def problems(extra: Sequence[int] = ()) -> dict[int | str, dict[str, Any]]:
    """The refusals that every route with a body can give, and more."""
    return documented_problems(*sorted({400, 401, 403, 408, 413, 415, 429, 500, 503, *extra}))


def guarded_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route without a body that asks who calls, and more."""
    return documented_problems(*sorted({401, 403, 429, 500, *statuses}))


_DESCRIPTIONS = {
    400: "The request breaks a rule of its own form (INVALID_REQUEST, SECURITY_DISABLED, POLICY_VIOLATION)",
    401: "The caller did not prove who it is (SASL_AUTHENTICATION_FAILED)",
    403: "The caller may not ask this, or its principal lacks the right on the cluster (CLUSTER_AUTHORIZATION_FAILED)",
    404: "Nothing is there (RESOURCE_NOT_FOUND)",
    405: "The path takes another method; see Allow",
    408: "The body did not arrive in time",
    409: "The token or the cluster id is of another store (TOKEN_EPOCH_MISMATCH, INCONSISTENT_CLUSTER_ID)",
    412: "The store has changed since the token that the update is guarded by (INVALID_UPDATE_VERSION)",
    413: "The body is too large",
    415: "The body is not application/json",
    429: "Too much at once; try again after Retry-After (OVERLOADED, THROTTLING_QUOTA_EXCEEDED)",
    500: "An unexpected fault; its cause is in the service's log (UNKNOWN_SERVER_ERROR)",
    503: "Not now; try again after Retry-After (AUTHORIZER_NOT_READY, STORE_UNAVAILABLE, OFFSET_NOT_AVAILABLE)",
    504: "The deadline passed; whether the update was kept is unknown (REQUEST_TIMED_OUT)",
}
