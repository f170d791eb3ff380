"""`GET /`, `/openapi.json` and `/docs`. They need no caller, and say nothing that would."""

import asyncio
import hashlib
import json
import shlex
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from app import __version__
from app.rest.http.edge import Routes

Node = Mapping[str, Any]


class _Operation(NamedTuple):
    method: str
    path: str
    details: Node
    command: str
    reply: str


@cache
def css() -> str:
    return (files(__package__) / "style.css").read_text(encoding="utf-8")


def first_page(page: Node) -> str:
    return _environment().get_template("first_page.html.j2").render(page=page)


def reference_page(document: Node) -> str:
    operations = defaultdict(list)
    for path, methods in document["paths"].items():
        for method, details in methods.items():
            command, reply = _command(path, details, document), _reply_text(details)
            for tag in details["tags"]:
                operations[tag].append(_Operation(method.upper(), path, details, command, reply))
    return _environment().get_template("reference.html.j2").render(document=document, operations=operations)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["css"] = css()
    environment.filters |= {"schema_name": _schema_name, "description": _description, "json_word": _json_word}
    return environment


def _command(path: str, operation: Node, document: Node) -> str:
    for each in operation.get("parameters", []):
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", each["example"])
    command = f"curl -s {document['servers'][0]['url']}{path}"
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]["example"]
        command += f" -H 'content-type: application/json' -d {shlex.quote(json.dumps(body, indent=2))}"
    return command


def _reply_text(operation: Node) -> str:
    (content,) = operation["responses"]["200"]["content"].values()
    reply = content["example"]
    return reply if isinstance(reply, str) else json.dumps(reply, indent=2)


def _schema_name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _description(field: Node, schemas: Node) -> str:
    described: str | None = field.get("description")
    if described is not None:
        return described
    if "$ref" in field:
        return _description(schemas[_schema_name(field["$ref"])], {})
    held = (*field.get("anyOf", ()), *([field["items"]] if "items" in field else []))
    return next((found for each in held if (found := _description(each, schemas))), "")


def _json_word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_SUMMARY = "Apache Kafka's Authorizer as a REST service: ACLs in PostgreSQL, decisions from memory."
_LINKS = {
    "/console": "the console: view and change access in a browser",
    "/docs": "the API reference",
    "/openapi.json": "the OpenAPI document, for client generators",
    "/readyz": "whether the service should get requests; `?verbose` lists the checks",
    "/livez": "whether the process answers",
    "/metrics": "metrics for Prometheus; if callers are configured, for the role observe, and for admin with DESCRIBE",
}
_CONSOLE = "/console"
_REFERENCE = ("/docs", "/openapi.json")
_GUIDES = {
    "README.md": "getting started",
    "docs/operations.md": "how to run it, and every setting",
    "docs/console.md": "the console: access in a browser",
    "docs/clients.md": "clients in Python, Java, Go and TypeScript",
    "docs/callers.md": "callers, and how they authenticate",
    "docs/acls.md": "klamm acls, for users of kafka-acls",
    "docs/why.md": "how a decision came about",
    "docs/plan.md": "ACLs as a file: plan and apply",
    "docs/formats.md": "import and export of ACLs in other formats",
    "docs/kafka-broker.md": "Klamm as the authorizer of a Kafka broker",
    "docs/kubernetes.md": "Klamm on Kubernetes",
    "docs/database.md": "the database and its roles",
    "docs/decision-log.md": "the decision log",
    "docs/pipeline.md": "the Spark pipeline",
}


class _Reference(NamedTuple):
    document: bytes
    page: bytes


def document_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def pages_routes(document: Callable[[], Mapping[str, Any]] | None, *, has_console: bool = False) -> Routes:
    routes = Routes("pages")
    absent = {*(() if has_console else (_CONSOLE,)), *(_REFERENCE if document is None else ())}
    _add_first_page(routes, {path: about for path, about in _LINKS.items() if path not in absent})
    if document is not None:
        _add_reference(routes, document)
    return routes


def _add_first_page(routes: Routes, links: Mapping[str, str]) -> None:
    fields = {"name": "Klamm", "version": __version__, "summary": _SUMMARY, "links": links, "guides": _GUIDES}
    as_json = json.dumps(fields, indent=2).encode() + b"\n"
    as_html = first_page(fields).encode()

    @routes.get("/", name="index", needs_caller=False, include_in_schema=False)
    async def index(request: Request) -> Response:
        if wants_html(request.headers.get("accept", "")):
            return _html(as_html, vary="accept")
        return _reply(as_json, "application/json", vary="accept")


def _add_reference(routes: Routes, document: Callable[[], Mapping[str, Any]]) -> None:
    def make() -> _Reference:
        described = document()
        return _Reference(document_text(described).encode(), reference_page(described).encode())

    @cache
    def reference() -> asyncio.Future[_Reference]:
        # A tenth of a second of work: once, and not before somebody asks.
        return asyncio.ensure_future(asyncio.to_thread(make))

    @routes.get("/openapi.json", name="openapi", needs_caller=False, include_in_schema=False)
    async def openapi() -> Response:
        return _reply((await asyncio.shield(reference())).document, "application/json")

    @routes.get("/docs", name="docs", needs_caller=False, include_in_schema=False)
    async def docs() -> Response:
        return _html((await asyncio.shield(reference())).page)


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


def wants_html(accept: str) -> bool:
    """Browsers name text/html first; programs name JSON, or take anything."""
    return accept.partition(",")[0].partition(";")[0].strip().lower() == "text/html"
