"""The parameters of a path and a query: their values, or what is wrong with one and how to mend it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from fastapi._compat import ModelField
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import request_params_to_args
from pydantic import BaseModel
from starlette.datastructures import QueryParams

from app.core.kafka.errors import InvalidRequestException
from app.core.spelling import did_you_mean
from app.rest.errors import invalid_field

MAX_PARAMETERS = 100
_MAX_SHOWN = 100
_NO_QUERY = QueryParams()
_MEANT = {
    "int_parsing": "send a whole number",
    "int_type": "send a whole number",
    "bool_parsing": "send true or false",
    "greater_than_equal": "send {ge} or more",
    "less_than_equal": "send {le} or less",
}
"""Texts by pydantic's name of a fault, in place of its own."""


def read_query(query: bytes) -> QueryParams:
    """Raises InvalidRequestException for too many parameters."""
    if query.count(b"&") >= MAX_PARAMETERS:
        raise InvalidRequestException(f"the query has more than {MAX_PARAMETERS} parameters; send fewer")
    if has_bare_percent(query):
        raise InvalidRequestException("the query has a `%` that begins no escape; send `%25` in its place")
    return QueryParams(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else _NO_QUERY


def has_bare_percent(text: bytes) -> bool:
    """Whether there are more `%` than escapes can be. Such texts take urllib the longest."""
    return 3 * text.count(b"%") > len(text)


def check_query(query: QueryParams, known: Sequence[str]) -> None:
    """Raises InvalidRequestException for a parameter that is not `known`, or comes twice."""
    seen = set[str]()
    for name, _ in query.multi_items():
        if name not in known:
            takes = f"send one of {', '.join(known)}{did_you_mean(name, known)}" if known else "this path takes none"
            raise _refusal(name, f"there is no such parameter; leave it out, {'or ' if known else ''}{takes}")
        if name in seen:
            raise _refusal(name, "it appears more than once; send it once")
        seen.add(name)


def names_of(fields: Iterable[ModelField]) -> Sequence[str]:
    """The names that a route takes from the query."""
    return [*_names(fields)]


def _refusal(name: str, text: str) -> InvalidRequestException:
    return InvalidRequestException(f"query parameter `{name[:_MAX_SHOWN]}`: {text}")


def read_parameters(dependant: Dependant, path: Mapping[str, Any], query: QueryParams) -> Mapping[str, Any]:
    """The values of a path's and a query's parameters. Raises InvalidFieldsException."""
    values, errors = request_params_to_args(dependant.path_params, path)
    more, more_errors = request_params_to_args(dependant.query_params, query)
    if errors or more_errors:
        raise invalid_field("", _fault([*errors, *more_errors][0]))
    return {**values, **more}


def _fault(fault: Mapping[str, Any]) -> str:
    """`fault` is one of pydantic's."""
    part, *names = fault["loc"]
    kind, text = fault["type"], str(fault["msg"]).removeprefix("Value error, ")
    if not names:
        return text
    name = ".".join(map(str, names))
    if kind in _MEANT:
        text = f"`{str(fault['input'])[:_MAX_SHOWN]}` can't be used; {_MEANT[kind].format(**fault.get('ctx', {}))}"
    return f"{part} parameter `{name[:_MAX_SHOWN]}`: {text}"


def _names(known: Iterable[ModelField]) -> Iterable[str]:
    for each in known:
        model = each.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from model.model_fields
        else:
            yield each.alias
