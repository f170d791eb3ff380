"""Schemas of the OpenAPI document as HTML: fields with their types and descriptions."""

from collections.abc import Iterator, Mapping
from typing import Any

from app.rest.pages.markup import Child, Html, tag
from app.rest.pages.prose import code_spans, paragraphs

Node = Mapping[str, Any]


def name_of(reference: Node) -> str:
    """The schema that is referred to."""
    name: str = reference["$ref"].rpartition("/")[2]
    return name


def schema_section(name: str, schemas: Node) -> Html:
    """A schema with its fields or words."""
    schema = schemas[name]
    parts = list(paragraphs(schema.get("description", "")))
    if "properties" in schema:
        parts.append(fields_of(schema, schemas))
    else:
        words = [part for word in schema.get("enum", ()) for part in (tag("code", str(word)), " ")]
        parts.append(tag("p", *words))
    title = tag("h3", tag("a", name, href=f"#schema-{name}"))
    return tag("article", title, *parts, id=f"schema-{name}")


def fields_of(schema: Node, schemas: Node) -> Html:
    """The fields of an object, as a list of terms."""
    required = schema.get("required", ())
    entries: list[Html] = []
    for name, field in schema["properties"].items():
        needed: tuple[Child, ...] = (", required",) if name in required else ()
        if field.get("default") is not None:
            needed = (", default ", tag("code", _word(field["default"])))
        entries.append(tag("dt", tag("code", name), " ", tag("small", *kind_of(field), *needed)))
        entries.append(tag("dd", *code_spans(_description(field, schemas))))
    return tag("dl", *entries)


def kind_of(schema: Node) -> Iterator[Child]:
    """The type in words, with a link where it is a schema."""
    if "$ref" in schema:
        yield tag("a", name_of(schema), href=f"#schema-{name_of(schema)}")
    elif "anyOf" in schema:
        for at, each in enumerate(schema["anyOf"]):
            yield " or " if at else ""
            yield from kind_of(each)
    elif schema.get("type") == "array":
        yield "array of "
        yield from kind_of(schema["items"])
        if "maxItems" in schema:
            yield f", {schema['maxItems']:,} at most"
    else:
        yield schema.get("type", "anything")
        yield from _bounds(schema)


def _bounds(schema: Node) -> Iterator[str]:
    if "format" in schema:
        yield f" ({schema['format']})"
    if "minimum" in schema:
        yield f" from {schema['minimum']:,} to {schema['maximum']:,}" if "maximum" in schema else ""
    if "maxLength" in schema:
        yield f", {schema['maxLength']:,} letters at most"


def _description(field: Node, schemas: Node) -> str:
    """The field's own, or that of what it holds."""
    described: str | None = field.get("description")
    if described is not None:
        return described
    if "$ref" in field:
        return _description(schemas[name_of(field)], {})
    for each in (*field.get("anyOf", ()), *([field["items"]] if "items" in field else [])):
        if found := _description(each, schemas):
            return found
    return ""


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
