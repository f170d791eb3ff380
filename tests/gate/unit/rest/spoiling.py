"""Spoiled copies of valid bodies, derived from them and from openapi.json: a new field is covered by being there."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.bodies import BODIES
from tests.klamm import ROOT, Json

Place = tuple[str | int, ...]
Change = Callable[[Any], object]


@dataclass(frozen=True)
class Raw:
    """Text that stands in a body as it is."""

    text: str


@dataclass(frozen=True)
class Twice:
    """An object in which one key comes a second time, with this value."""

    value: Json
    key: str
    again: object


def dump(value: object) -> str:
    """JSON, with the two additions above."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Twice):
        return f"{dump(value.value)[:-1]},{json.dumps(value.key)}:{dump(value.again)}}}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{dump(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    return json.dumps(value)


def places(value: object, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value in a body and where it stands, the body itself first."""
    yield place, value
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*place, key))
    if isinstance(value, list):
        for at, each in enumerate(value):
            yield from places(each, (*place, at))


def changed(value: Any, place: Place, change: Change) -> Any:  # noqa: ANN401 - JSON
    """A copy of the body with the value at this place changed."""
    if not place:
        return change(value)
    head, *rest = place
    if isinstance(value, list):
        return [changed(each, tuple(rest), change) if at == head else each for at, each in enumerate(value)]
    return {key: changed(each, tuple(rest), change) if key == head else each for key, each in value.items()}


def pointer(place: Place) -> str:
    return "".join(f"/{part}" for part in place)


_DOCUMENT = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))


def documented_posts() -> set[str]:
    """The paths that take a POST."""
    return {path for path, methods in _DOCUMENT["paths"].items() if "post" in methods}


def schema_of(path: str, place: Place = ()) -> Json:
    """What the document says of the value at this place of the route's body."""
    content = _DOCUMENT["paths"][path]["post"]["requestBody"]["content"]
    schema = _resolved(content["application/json"]["schema"])
    for part in place:
        schema = _if_present(schema)
        schema = _resolved(schema["items"] if isinstance(part, int) else schema["properties"][part])
    return schema


def _if_present(schema: Json) -> Json:
    """What an object or an array that may be null is otherwise."""
    for each in schema.get("anyOf", ()):
        if each.get("type") != "null":
            return _resolved(each)
    return schema


def _resolved(schema: Json) -> Json:
    if "$ref" in schema:
        found: Json = _DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return _resolved(found)
    return schema


def is_nullable(schema: Json) -> bool:
    return any(each.get("type") == "null" for each in schema.get("anyOf", ()))


NUMBERS: Mapping[str, object] = {
    "true": True,
    "false": False,
    "text": "1",
    "a fraction": 1.5,
    "a fraction of nothing": Raw("1.0"),
    "an exponent": Raw("1e0"),
    "one more than an int32": 2**31,
    "one more than an int64": 2**63,
    "one more than an unsigned int64": 2**64,
    "far too small": -(2**63) - 1,
    "400 digits": 10**400,
    "a leading zero": Raw("01"),
    "a plus": Raw("+1"),
    "hexadecimal": Raw("0x1"),
    "a list": [],
    "an object": {},
}
TEXTS: Mapping[str, object] = {
    "a number": 1,
    "a boolean": False,
    "a list": ["x"],
    "an object": {"x": "y"},
    "U+0000": "a\x00b",
    "U+0000 alone": "\x00",
    "a raw U+0000": Raw('"a\x00b"'),
    "a raw line feed": Raw('"a\nb"'),
    "a high surrogate": Raw(r'"a\ud800"'),
    "a low surrogate": Raw(r'"\uDFFFa"'),
    "surrogates the wrong way round": Raw(r'"\ude00\ud83d"'),
    "two high surrogates": Raw(r'"\ud83d\ud83d\ude00"'),
    "an escape that is none": Raw(r'"\x41"'),
    "half an escape": Raw(r'"\u00"'),
    "single quotes": Raw("'x'"),
}
CONTAINERS: Mapping[str, object] = {"text": "x", "a number": 7, "true": True}
ANYWHERE: Mapping[str, object] = {
    "NaN": Raw("NaN"),
    "Infinity": Raw("Infinity"),
    "-Infinity": Raw("-Infinity"),
    "1e999": Raw("1e999"),
    "-1e999": Raw("-1e999"),
}
"""Not JSON, or not finite: the rest of the grammar is refused as a whole, these with their place."""

UNPLACED = {
    "a leading zero", "a plus", "hexadecimal", "400 digits", "a raw U+0000", "a raw line feed",
    "an escape that is none", "half an escape", "single quotes",
}  # fmt: skip
"""What is no JSON at all has no place in it."""


@dataclass(frozen=True)
class Spoiled:
    """A body with one fault, and the field that its refusal must name (None: it is no JSON)."""

    what: str
    content: bytes
    field: str | None


def spoiled(path: str) -> Iterator[Spoiled]:
    """Every single fault that a valid body of this route can have."""
    body = BODIES[path]
    for place, value in places(body):
        if isinstance(value, dict):
            yield from _spoiled_object(path, place, value)
        for what, bad in _wrong_values(path, place, value):
            text = dump(changed(body, place, lambda _, bad=bad: bad))  # type: ignore[misc]  # bound at once
            yield Spoiled(what, text.encode(), None if what in UNPLACED else pointer(place))


def _spoiled_object(path: str, place: Place, value: Json) -> Iterator[Spoiled]:
    def spoil(what: str, field: str, bad: object) -> Spoiled:
        return Spoiled(what, dump(changed(BODIES[path], place, lambda _: bad)).encode(), pointer((*place, field)))

    yield spoil("an unknown field", "bogus", {**value, "bogus": 1})
    yield spoil("a field in other letters", next(iter(value)).upper(), {**value, next(iter(value)).upper(): 1})
    for key, kept in value.items():
        yield spoil("a key twice", key, Twice(value, key, kept))
        yield spoil("a key twice, with another value", key, Twice(value, key, None))
    for key in schema_of(path, place).get("required", ()):
        yield spoil("a missing field", key, {name: kept for name, kept in value.items() if name != key})


def _wrong_values(path: str, place: Place, value: object) -> Iterator[tuple[str, object]]:
    if not place:
        return
    yield from ANYWHERE.items()
    if type(value) is int:
        yield from NUMBERS.items()
    elif isinstance(value, str):
        yield from TEXTS.items()
    else:
        yield from CONTAINERS.items()
    if not is_nullable(schema_of(path, place)):
        yield "null", None
