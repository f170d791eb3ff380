"""What is wrong with a parameter of a path or a query, and the way out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi._compat import ModelField
from pydantic import BaseModel

from app.core.spelling import did_you_mean

_MAX_SHOWN = 100
_MEANT = {
    "int_parsing": "write a whole number",
    "int_type": "write a whole number",
    "bool_parsing": "write true or false",
    "greater_than_equal": "write {ge} or more",
    "less_than_equal": "write {le} or less",
}
"""By pydantic's name of a fault, in place of what it says."""


def parameter_fault(fault: Mapping[str, Any], known: Sequence[ModelField]) -> str:
    """`fault` is one of pydantic's, `known` what the route takes of the query."""
    part, *names = fault["loc"]
    kind, text = fault["type"], str(fault["msg"]).removeprefix("Value error, ")
    if not names:
        return text
    name = ".".join(map(str, names))
    if kind == "extra_forbidden":
        takes = list(_names(known))
        text = f"there is no such parameter; leave it out, or send one of {', '.join(takes)}{did_you_mean(name, takes)}"
    elif kind in _MEANT:
        text = f"`{str(fault['input'])[:_MAX_SHOWN]}` can't be used; {_MEANT[kind].format(**fault.get('ctx', {}))}"
    return f"{part} parameter `{name[:_MAX_SHOWN]}`: {text}"


def _names(known: Iterable[ModelField]) -> Iterable[str]:
    for each in known:
        model = each.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from model.model_fields
        else:
            yield each.alias
