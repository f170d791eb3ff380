"""Bodies of requests, read into the struct or the model that a route declares."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema

from app.rest.bodies.strict_json import off_loop, parse
from app.rest.bodies.validation import refusal_of
from app.rest.bodies.wire import StructReader, UndecodedException

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

_AT_ONCE = 200
"""Entries of a few microseconds each that are validated in one step of the event loop."""


@dataclass(frozen=True, slots=True)
class DescribedBy:
    """Annotates a body's struct with the model that documents it, for FastAPI, and that finds words for refusals."""

    model: type[BaseModel]
    read: Callable[[bytes], object] | None = None
    """What reads it; None: the struct's own fields say it all."""

    def __get_pydantic_core_schema__(self, _: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The model's own."""
        return handler.generate_schema(self.model)


def reader_of(annotation: Any) -> Callable[[bytes], Awaitable[Any]]:  # noqa: ANN401 - what stands in a signature
    """How a handler's body is read: a struct that is described by a model, or a model."""
    kind, *metadata = get_args(annotation) or (annotation,)
    for each in metadata:
        if isinstance(each, DescribedBy):
            return BodyReader(each.read or StructReader(kind).read, each.model).read
    models: ModelReader[Any] = ModelReader(kind)

    async def read(body: bytes) -> BaseModel:
        model: BaseModel = await models.read(await off_loop(parse, body))
        return model

    return read


class BodyReader(Generic[T]):
    """Reads bodies into what `read` makes of them; `model` finds the words for a body that it can't decode."""

    def __init__(self, read: Callable[[bytes], T], model: type[BaseModel]) -> None:
        self._read = read
        self._models = ModelReader(model)

    async def read(self, body: bytes) -> T:
        """The request. Raises InvalidRequestException, naming the fields."""
        try:
            return await off_loop(self._read, body)
        except UndecodedException:
            await self._models.read(await off_loop(parse, body))
            # msgspec's own words are the last resort.
            raise


class ModelReader(Generic[M]):
    """Makes models of parsed bodies; the entries of a long list some at a time, so that requests come in between."""

    def __init__(self, model: type[M]) -> None:
        self._model = model
        self._lists: Mapping[str, TypeAdapter[list[object]]] = {
            name: TypeAdapter(field.rebuild_annotation())
            for name, field in model.model_fields.items()
            if any(isinstance(each, type) and issubclass(each, BaseModel) for each in get_args(field.annotation))
            and getattr(field.annotation, "__origin__", None) is list
        }

    async def read(self, value: Mapping[str, object]) -> M:
        """The model. Raises InvalidFieldsException, naming the fields."""
        long = {
            name: each for name in self._lists if isinstance(each := value.get(name), list) and len(each) > _AT_ONCE
        }
        try:
            model = self._model.model_validate({**value, **{name: [] for name in long}} if long else value)
        except ValidationError as fault:
            raise refusal_of(fault.errors(include_url=False, include_input=False)) from None
        return model.model_copy(update={name: await self._entries(name, each) for name, each in long.items()})

    async def _entries(self, name: str, values: list[Any]) -> list[object]:
        entries: list[object] = []
        for start in range(0, len(values), _AT_ONCE):
            try:
                entries += self._lists[name].validate_python(values[start : start + _AT_ONCE])
            except ValidationError as fault:
                errors = fault.errors(include_url=False, include_input=False)
                for each in errors:
                    at, *rest = each["loc"]
                    each["loc"] = (name, start + int(at), *rest)
                raise refusal_of(errors) from None
            await asyncio.sleep(0)
        return entries
