"""The HTML of the first page and of the API's reference. There is no script, and nothing is fetched."""

import json
import shlex
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

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
    """`page` is what `/` says as JSON."""
    return _environment().get_template("first_page.html.j2").render(page=page)


def reference_page(document: Node) -> str:
    operations = defaultdict(list)
    for path, methods in document["paths"].items():
        for method, details in methods.items():
            command, reply = _command(path, details, document), _reply(details)
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


def _reply(operation: Node) -> str:
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
