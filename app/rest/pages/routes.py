"""`GET /`, `/openapi.json` and `/docs`. They need no caller, and say nothing that would."""

import asyncio
import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from fastapi import Request
from starlette.responses import Response

from app import __version__
from app.rest.http.edge import Routes
from app.rest.pages.first_page import first_page_fields
from app.rest.pages.negotiation import wants_html
from app.rest.pages.rendering import css, first_page, reference_page

_JSON = "application/json"


class _Reference(NamedTuple):
    document: bytes
    page: bytes


def document_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def pages_routes(document: Callable[[], Mapping[str, Any]] | None) -> Routes:
    """`/`, and if there is a document, `/openapi.json` and `/docs`; otherwise those two are not found."""
    routes = Routes("pages")
    _add_first_page(routes, has_reference=document is not None)
    if document is not None:
        _add_reference(routes, document)
    return routes


def _add_first_page(routes: Routes, *, has_reference: bool) -> None:
    fields = first_page_fields(__version__, has_reference=has_reference)
    as_json = json.dumps(fields, indent=2).encode() + b"\n"
    as_html = first_page(fields).encode()

    @routes.get("/", name="index", needs_caller=False, include_in_schema=False)
    async def index(request: Request) -> Response:
        if wants_html(",".join(request.headers.getlist("accept"))):
            return _html(as_html, vary="accept")
        return _reply(as_json, _JSON, vary="accept")


def _add_reference(routes: Routes, document: Callable[[], Mapping[str, Any]]) -> None:
    made: list[asyncio.Future[_Reference]] = []

    def make() -> _Reference:
        described = document()
        return _Reference(document_text(described).encode(), reference_page(described).encode())

    async def reference() -> _Reference:
        if not made:
            # A tenth of a second of work: once, and not before somebody asks.
            made.append(asyncio.ensure_future(asyncio.to_thread(make)))
        return await asyncio.shield(made[0])

    @routes.get("/openapi.json", name="openapi", needs_caller=False, include_in_schema=False)
    async def openapi() -> Response:
        return _reply((await reference()).document, _JSON)

    @routes.get("/docs", name="docs", needs_caller=False, include_in_schema=False)
    async def docs() -> Response:
        return _html((await reference()).page)


@cache
def _policy() -> str:
    digest = b64encode(hashlib.sha256(css().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _html(content: bytes, **headers: str) -> Response:
    return _reply(content, "text/html; charset=utf-8", **headers, **{"content-security-policy": _policy()})


def _reply(content: bytes, media_type: str, **headers: str) -> Response:
    guarded = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-cache"}
    return Response(content, media_type=media_type, headers={**headers, **guarded})
