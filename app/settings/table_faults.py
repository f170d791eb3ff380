"""What is wrong with a table of `klamm.toml`, in words of that file: `[callers.NAME]` and `[issuers.NAME]`."""

import json
from collections.abc import Collection, Iterator, Mapping

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from app.core.spelling import nearest
from app.settings.callers import CallerSettings, IssuerSettings

_TABLES: dict[str, tuple[type[BaseModel], str]] = {
    "callers": (CallerSettings, "a caller"),
    "issuers": (IssuerSettings, "an issuer"),
}
_EXPECTED = {
    "bool_type": "expected true or false, without quotes",
    "int_type": "expected a whole number, without quotes",
    "tuple_type": "expected a list",
    "string_type": "expected text, in quotes",
    "path_type": "expected the name of a file, in quotes",
}
_NUMBERS = {
    "int_parsing": "expected a whole number",
    "int_parsing_size": "expected a whole number, and none so large",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_parsing": "expected a number",
    "float_type": "expected a number",
}
_KEY_DEPTH = 3
"""The length of a key's path: callers, NAME, key."""


def reason_of(fault: ErrorDetails) -> str:
    """What pydantic found: the texts of Klamm and Kafka as they are, its own as a sentence about `it`."""
    own = fault.get("ctx", {}).get("error")
    if own is not None:
        return str(own)
    text = _NUMBERS.get(fault["type"], fault["msg"])
    for kind in ("Input", "String", "Tuple"):
        text = text.replace(f"{kind} should", "it should", 1)
    return text


def table_fault(fault: ErrorDetails, properties: Collection[str]) -> str:
    """Where a fault in one of the tables is, and the way out; `properties` are all that belong above the tables."""
    path = fault["loc"]
    place = ".".join(map(str, path))
    kind = str(path[0])
    if len(path) < _KEY_DEPTH and fault["type"] != "value_error":
        return f"{place}: expected a table; write `[{kind}.{path[1] if path[1:] else 'NAME'}]`"
    model, whose = _TABLES[kind]
    if fault["type"] == "extra_forbidden":
        unknown = _unknown(str(path[-1]), fault["input"], model, whose, properties)
        return f"{path[0]}.{path[1]}: {unknown}"
    if fault["type"] == "missing":
        name = str(path[-1])
        return f"{place}: it is missing; write for example `{name} = {_example(model, name)}`"
    if fault["type"] not in _EXPECTED:
        return f"{place}: {reason_of(fault)}"
    example = _example(model, str(path[-1]))
    return f"{place}: {_EXPECTED[fault['type']]}" + ("" if example is None else f", such as {example}")


def _example(model: type[BaseModel], name: str) -> str | None:
    """A value in TOML, which has the same texts and lists of texts as JSON."""
    field = model.model_fields.get(name)
    return json.dumps(field.examples[0]) if field is not None and field.examples else None


def _unknown(name: str, value: object, model: type[BaseModel], whose: str, properties: Collection[str]) -> str:
    # To TOML everything below a `[table]` is in it, also `tokens.file = ""`.
    for swallowed in _dotted(name, value):
        if swallowed in properties:
            return f"`{swallowed}` is a property, not one of {whose}; move it above the first `[table]`"
    meant = nearest(name, model.model_fields)
    way_out = f"did you mean `{meant}`?" if meant else f"known are {', '.join(sorted(model.model_fields))}"
    return f"there is no `{name[:100]}`; {way_out}"


def _dotted(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield name
        return
    for key, each in value.items():
        yield from _dotted(f"{name}.{key}", each)
