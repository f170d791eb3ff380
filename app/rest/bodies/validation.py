"""What pydantic finds wrong with a body, in words that name the field and the way out."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.rest.bodies.strict_json import pointer_token
from app.rest.errors import FieldError, InvalidFieldsException

_NO_OBJECT = "the value is not an object; send one with its fields"
_DETAILS = {
    "missing": "the field is missing; send it",
    "extra_forbidden": "there is no such field; remove it",
    "string_type": "the value is not text; send a string",
    "int_type": "the value is not a whole number; send an integer",
    "bool_type": "the value is neither true nor false; send one of them",
    "list_type": "the value is not a list; send an array",
    "model_type": _NO_OBJECT,
    "model_attributes_type": _NO_OBJECT,
    "uuid_parsing": "the value is not a UUID; send one as in the reply that named it",
    "greater_than_equal": "the number is too small; send at least {ge}",
    "less_than_equal": "the number is too large; send at most {le}",
}


def refusal_of(errors: Sequence[Mapping[str, Any]]) -> InvalidFieldsException:
    """Pydantic's errors, located from the body's root, as one refusal."""
    return InvalidFieldsException([FieldError(_pointer(error["loc"]), _detail(error)) for error in errors])


def request_refusal_of(errors: Sequence[Mapping[str, Any]]) -> InvalidFieldsException:
    """FastAPI's errors, whose locations begin with the part of the request, as one refusal."""
    return InvalidFieldsException([_request_error(error) for error in errors])


def _request_error(error: Mapping[str, Any]) -> FieldError:
    part, *rest = error["loc"]
    if part == "body":
        return FieldError(_pointer(rest), _detail(error))
    return FieldError("", f"{part} parameter `{'.'.join(map(str, rest))}`: {_detail(error)}")


def _pointer(parts: Sequence[str | int]) -> str:
    return "".join(f"/{pointer_token(str(part))}" for part in parts)


def _detail(error: Mapping[str, Any]) -> str:
    detail = _DETAILS.get(error["type"])
    return str(error["msg"]) if detail is None else detail.format_map(error.get("ctx", {}))
