"""The pages of the site's reference, made from the code: REST, commands, settings, metrics."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.cli.commands import COMMANDS
from app.metrics.declared import OPERATIONS, Metrics
from app.metrics.page import MetricsPage
from app.settings.model import Settings
from app.settings.sources import TABLES, property_of, variable_of

_HELP_TIMEOUT_S = 120


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def _table(*rows: tuple[object, ...]) -> Iterator[str]:
    """The first row is the head."""
    for at, row in enumerate(rows):
        yield "| " + " | ".join(_cell(each) for each in row) + " |"
        if at == 0:
            yield "|" + "---|" * len(row)
    yield ""


def _type_of(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_type_of(each) for each in schema[word]))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"array of {_type_of(schema.get('items', {}))}"
    types = schema.get("type", "any")
    return " or ".join(types) if isinstance(types, list) else str(types)


def _content(title: str, body: dict[str, Any]) -> Iterator[str]:
    for kind, content in body.get("content", {}).items():
        yield f"{title}: {_type_of(content.get('schema', {}))} (`{kind}`)\n"
        if "example" in content:
            example = content["example"]
            text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
            yield "```\n" + text.rstrip("\n") + "\n```\n"


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}\n"
    yield f"**{operation['operationId']}.** {operation.get('description') or operation['summary']}\n"
    if operation.get("parameters"):
        rows = [
            (f"`{each['name']}`", each["in"], _type_of(each.get("schema", {})), each.get("description", ""))
            for each in operation["parameters"]
        ]
        yield from _table(("parameter", "in", "type", "meaning"), *rows)
    yield from _content("Body", operation.get("requestBody", {}))
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            yield from _content(f"Answer {status}", response)
    rows = [(status, each["description"]) for status, each in operation["responses"].items()]
    yield from _table(("status", "meaning"), *rows)


def rest(openapi: dict[str, Any]) -> str:
    lines = ["# REST\n", "Made from `openapi.json`, which a service shows at `/docs` too.\n"]
    by_tag: dict[str, list[str]] = {}
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            by_tag.setdefault(tag, []).extend(_operation(method, path, operation))
    for tag, texts in by_tag.items():
        lines += [f"## {tag.capitalize()}\n", *texts]
    lines.append("## Types\n")
    for name, schema in openapi["components"]["schemas"].items():
        lines += [f"### {name}\n", f"{schema.get('description', '')}\n"]
        if properties := schema.get("properties"):
            required = schema.get("required", [])
            rows = [
                (f"`{field}`", _type_of(each), "yes" if field in required else "", each.get("description", ""))
                for field, each in properties.items()
            ]
            lines += _table(("field", "type", "required", "meaning"), *rows)
        else:
            lines.append(f"{_type_of(schema)}\n")
    return "\n".join(lines)


def _help(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from app.cli.entry_point import main; main()", *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
        timeout=_HELP_TIMEOUT_S,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHON_COLORS": "0"},
    )
    return done.stdout.rstrip()


def commands() -> str:
    lines = ["# Commands\n", "What each command says of itself with `--help`.\n", f"```text\n{_help()}\n```\n"]
    for name in COMMANDS:
        lines += [f"## klamm {name}\n", f"```text\n{_help(name)}\n```\n"]
    return "\n".join(lines)


def _default(name: str) -> str:
    field = Settings.model_fields[name]
    default = field.default_factory if field.default_factory is not None else field.default
    if callable(default):
        return "where standard error is a terminal `TEXT`, else `JSON`" if name == "log_format" else ""
    if default is None or default in ((), frozenset()):
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def settings() -> str:
    rows = [
        (f"`{property_of(name)}`", f"`{variable_of(name)}`", _default(name))
        for name in Settings.model_fields
        if name not in TABLES
    ]
    return "\n".join(
        [
            "# Settings\n",
            "Every property that `klamm serve` knows, made from the code. Set it as the variable or, under its own",
            "name, in `klamm.toml`; flags go before variables, variables before the file. What each means:",
            "[Operations](../operations.md#settings). Callers and issuers are tables of `klamm.toml`:",
            "[Callers](../callers.md).\n",
            *_table(("property", "variable", "default"), *rows),
        ]
    )


def metrics() -> str:
    counts = Metrics()
    for operation in OPERATIONS:
        counts.count_request(operation, 200, 0.001)
    rows = []
    for family in sorted(MetricsPage(counts, "0").collect(), key=lambda each: str(each.name)):
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        name = f"{family.name}_total" if family.type == "counter" else family.name
        rows.append((f"`{name}`", family.type, ", ".join(f"`{label}`" for label in labels), family.documentation))
    return "\n".join(
        [
            "# Metrics\n",
            "What `GET /metrics` shows, made from the code. With workers, gauges have the label `worker` as well.",
            "The alerts over them: [Runbooks](../runbooks.md). Those of the pipeline:",
            "[Pipeline](../pipeline.md#metrics); those of the broker's plugin:",
            "[Kafka brokers](../kafka-broker.md#metrics).\n",
            *_table(("metric", "kind", "labels", "meaning"), *rows),
        ]
    )


def write(folder: Path, root: Path) -> None:
    """All pages of the reference, into `folder`."""
    folder.mkdir(parents=True)
    openapi = json.loads((root / "openapi.json").read_text(encoding="utf-8"))
    for name, text in (
        ("rest", rest(openapi)),
        ("commands", commands()),
        ("settings", settings()),
        ("metrics", metrics()),
    ):
        (folder / f"{name}.md").write_text(text + "\n", encoding="utf-8")
