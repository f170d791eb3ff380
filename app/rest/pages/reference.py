"""The reference of the API as one page of HTML, made of the OpenAPI document. No script, nothing that is fetched."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from app.rest.pages.markup import Child, Html, page, tag
from app.rest.pages.prose import code_spans, paragraphs
from app.rest.pages.schemas import fields_of, kind_of, name_of, schema_section

Node = Mapping[str, Any]


def reference_page(document: Node, css: str) -> str:
    """The page."""
    info = document["info"]
    title = f"{info['title']} {info['version']}: API reference"
    operations = list(_operations(document))
    tags = [(each, [one for one in operations if each["name"] in one[2]["tags"]]) for each in document["tags"]]
    schemas = document["components"]["schemas"]
    header = tag("header", tag("h1", title), *_introduction(document))
    main = tag(
        "main",
        *(_group(each, found, document) for each, found in tags),
        tag("section", tag("h2", "Schemas"), *(schema_section(name, schemas) for name in schemas), id="schemas"),
        id="content",
    )
    skip = tag("a", "Skip to the content", href="#content", class_="skip")
    return page(title, css, skip, tag("div", header, _contents(tags), main, class_="columns"))


def _operations(document: Node) -> Iterator[tuple[str, str, Node]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _introduction(document: Node) -> Iterator[Html]:
    yield from paragraphs(f"{document['info']['summary']}. {document['info']['description']}")
    yield tag(
        "p",
        "For generators: ",
        tag("a", "openapi.json", href="/openapi.json"),
        ". What else this service has: ",
        tag("a", "its first page", href="/"),
        ".",
    )
    yield from paragraphs(
        "Each example is asked of a service that holds examples/acls.json, as after `make run`, with what it answers. "
        "The ids of ACLs, the cluster's id and tokens are other ones in each store."
    )
    schemes = document["components"]["securitySchemes"].values()
    told = (tag("li", *code_spans(each["description"])) for each in schemes)
    yield tag("p", "Where callers are configured, a request proves who sends it, in one of two ways:")
    yield tag("ul", *told)


def _contents(tags: list[tuple[Node, list[tuple[str, str, Node]]]]) -> Html:
    def entry(operation: Node) -> Html:
        return tag("li", tag("a", operation["operationId"], href=f"#{operation['operationId']}"))

    groups = (
        tag("li", tag("a", each["name"], href=f"#tag-{each['name']}"), tag("ul", *(entry(one[2]) for one in found)))
        for each, found in tags
    )
    last = tag("li", tag("a", "schemas", href="#schemas"))
    return tag("nav", tag("ul", *groups, last), aria_label="Operations")


def _group(described: Node, operations: list[tuple[str, str, Node]], document: Node) -> Html:
    name = described["name"]
    return tag(
        "section",
        tag("h2", name),
        tag("p", described["description"]),
        *(_operation(method, path, operation, document) for method, path, operation in operations),
        id=f"tag-{name}",
    )


def _operation(method: str, path: str, operation: Node, document: Node) -> Html:
    operation_id = operation["operationId"]
    title = tag("h3", tag("a", operation["summary"], href=f"#{operation_id}"))
    line = tag("p", tag("b", method), " ", tag("code", path), class_="request")
    needs = "Needs no caller." if operation.get("security") == [] else ""
    return tag(
        "article",
        title,
        line,
        *paragraphs(operation["description"]),
        *([tag("p", needs)] if needs else ()),
        *_parameters(operation),
        *_body(operation, document),
        *_example(method, path, operation, document),
        *_responses(operation),
        id=operation_id,
    )


def _parameters(operation: Node) -> Iterator[Html]:
    parameters = operation.get("parameters", [])
    if not parameters:
        return
    yield tag("h4", "Parameters")
    entries: list[Html] = []
    for each in parameters:
        needed = "required" if each.get("required") else "optional"
        words: tuple[Child, ...] = (f"{each['in']}, ", *kind_of(each["schema"]), f", {needed}")
        entries.append(tag("dt", tag("code", each["name"]), " ", tag("small", *words)))
        entries.append(tag("dd", *code_spans(each.get("description", ""))))
    yield tag("dl", *entries)


def _body(operation: Node, document: Node) -> Iterator[Html]:
    if "requestBody" not in operation:
        return
    name = name_of(operation["requestBody"]["content"]["application/json"]["schema"])
    yield tag("h4", "Request body: ", tag("a", name, href=f"#schema-{name}"))
    schemas = document["components"]["schemas"]
    yield fields_of(schemas[name], schemas)


def _example(method: str, path: str, operation: Node, document: Node) -> Iterator[Html]:
    yield tag("h4", "Example")
    command = f"curl -s {document['servers'][0]['url']}{_path_of_example(path, operation)}"
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]["example"]
        command += f" -H 'content-type: application/json' -d {shlex.quote(json.dumps(body, indent=2))}"
    yield _block(command, f"Request of {operation['operationId']}, {method}", class_="whole")
    ((_, content),) = operation["responses"]["200"]["content"].items()
    reply = content["example"]
    yield tag("p", "It answers:")
    yield _block(reply if isinstance(reply, str) else json.dumps(reply, indent=2), "Reply")


def _path_of_example(path: str, operation: Node) -> str:
    for each in operation.get("parameters", []):
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", each["example"])
    return path


def _block(text: str, label: str, **attributes: str) -> Html:
    # What can be scrolled can be reached by keys.
    return tag("pre", tag("code", text, **attributes), tabindex="0", role="region", aria_label=label)


def _responses(operation: Node) -> Iterator[Html]:
    yield tag("h4", "Responses")
    entries: list[Html] = []
    for status, response in operation["responses"].items():
        kinds: list[Child] = []
        for media_type, content in response.get("content", {}).items():
            kinds += [f" {media_type}: ", *kind_of(content["schema"])]
        said = "" if response["description"] == "Successful Response" else response["description"]
        entries.append(tag("dt", tag("code", status), tag("small", *kinds)))
        entries.append(tag("dd", *code_spans(said)))
    yield tag("dl", *entries, class_="responses")
