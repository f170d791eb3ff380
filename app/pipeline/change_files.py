"""Candidate changes: bodies of createAcls and deleteAcls in files, and what they would do to an ACL, as core says.

Files are gone through in the order given. A binding that is there already is not created again.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from app.core.bindings import AclBinding
from app.core.codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.filters import AclBindingFilter
from app.core.mutations import MAX_RECORDS_PER_USER_OP
from app.core.validation import validate_filter, validate_new_acl
from app.pipeline.errors import PipelineError
from app.pipeline.schemas import BINDING_FIELDS

MAX_FILE_BYTES = 64 * 1024 * 1024
_MAX_SHOWN = 100

_WORDS: dict[str, type[AclOperation | AclPermissionType | PatternType | ResourceType]] = {
    "resource_type": ResourceType,
    "pattern_type": PatternType,
    "operation": AclOperation,
    "permission_type": AclPermissionType,
}
_DEFAULTS = {"pattern_type": PatternType.LITERAL.name, "host": WILDCARD}
_ANY = "ANY"


class FilterSet:
    """Many filters at once: a look-up for each combination of fields that they name, however many filters."""

    def __init__(self, filters: Sequence[AclBindingFilter]) -> None:
        # By the combination of fields: by their values: the names of MATCH filters sorted, or just that there are any.
        self._exact: dict[tuple[str, ...], set[tuple[object, ...]]] = {}
        self._match: dict[tuple[str, ...], dict[tuple[object, ...], list[str]]] = {}
        for each in filters:
            named = {name: value for name in BINDING_FIELDS if (value := _exact_value(each, name)) is not None}
            key, values = tuple(named), tuple(named.values())
            if each.pattern_type is PatternType.MATCH and each.resource_name is not None:
                self._match.setdefault(key, {}).setdefault(values, []).append(each.resource_name)
            else:
                self._exact.setdefault(key, set()).add(values)
        for cells in self._match.values():
            for names in cells.values():
                names.sort()

    def matches(self, binding: AclBinding) -> bool:
        """Whether any of the filters matches, as `AclBindingFilter.matches` says."""
        for key, cells in self._exact.items():
            if tuple(getattr(binding, name) for name in key) in cells:
                return True
        for key, named in self._match.items():
            names = named.get(tuple(getattr(binding, name) for name in key))
            if names is not None and _any_covered(names, binding):
                return True
        return False


@dataclass(frozen=True)
class Step:
    """One file. `bindings` (by their place in it) are to be created, or else what `filters` match is to be deleted."""

    path: str
    bindings: Mapping[AclBinding, str] = field(default_factory=dict)
    filters: FilterSet | None = None


@dataclass(frozen=True)
class Fate:
    """What becomes of a binding: whether it is there in the end, whether it has gone meanwhile, and in which files."""

    there: bool
    gone: bool
    deleted_by: int | None = None
    created_by: int | None = None


class Candidate:
    """A candidate change: its files in order."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps

    @property
    def bindings(self) -> list[AclBinding]:
        """Every binding that any file would create, once."""
        return list(dict.fromkeys(binding for step in self.steps for binding in step.bindings))

    def fate(self, binding: AclBinding, *, there: bool) -> Fate:
        """What becomes of this binding, which is there before the change, or not."""
        gone, deleted_by, created_by = False, None, None
        for number, step in enumerate(self.steps):
            if step.filters is None:
                if not there and binding in step.bindings:
                    there, created_by = True, number
            elif there and step.filters.matches(binding):
                there, gone, deleted_by = False, True, number
        return Fate(there, gone, deleted_by, created_by)


def new_id(binding: AclBinding) -> UUID:
    """The id of an ACL that is not there yet: always the same for the same binding."""
    return UUID(bytes=binding.natural_key[:16])


def read_candidate(files: Sequence[tuple[str, str]]) -> Candidate:
    """The change in these files: pairs of `create` or `delete` and a path, in order.

    Raises PipelineError with the file and the JSON pointer of everything that createAcls or deleteAcls would refuse.
    """
    return Candidate([_step(kind, path) for kind, path in files])


def refuse_excessive(step: Step, created: int, deleted: int) -> None:
    """Raise PipelineError if the service would refuse a call with so many new or removed ACLs."""
    for number, what in ((created, "creates"), (deleted, "deletes")):
        if number > MAX_RECORDS_PER_USER_OP:
            raise PipelineError(
                f"{step.path}: {what} {number:,} ACLs, and the service refuses more than "
                f"{MAX_RECORDS_PER_USER_OP:,} in one call; split the file"
            )


def _exact_value(acl_filter: AclBindingFilter, name: str) -> object | None:
    """What a binding's field must be equal to; None if any will do (or more than that has to be looked at)."""
    value = getattr(acl_filter, name)
    if name == "pattern_type":
        return None if value in (PatternType.ANY, PatternType.MATCH) else value
    if name == "resource_name" and acl_filter.pattern_type is PatternType.MATCH:
        return None
    return None if value is None or (name in _WORDS and value.name == _ANY) else value


def _any_covered(names: Sequence[str], binding: AclBinding) -> bool:
    """Whether this binding's pattern covers any of the sorted names."""
    if binding.pattern_type is PatternType.LITERAL and binding.resource_name == WILDCARD:
        return True
    at = bisect_left(names, binding.resource_name)
    if at == len(names):
        return False
    if binding.pattern_type is PatternType.PREFIXED:
        return names[at].startswith(binding.resource_name)
    return names[at] == binding.resource_name


def _step(kind: str, path: str) -> Step:
    if not path:
        raise PipelineError(f"--{kind}: the name of a file is empty; leave it out")
    try:
        return _create(path) if kind == "create" else _delete(path)
    except PipelineError as fault:
        raise PipelineError(f"--{kind} {fault}") from None


def _create(path: str) -> Step:
    bindings: dict[AclBinding, str] = {}
    for pointer, entry in _entries(path, "bindings"):
        missing = [name for name in BINDING_FIELDS if name not in entry and name not in _DEFAULTS]
        if missing:
            raise PipelineError(f"{path}: {pointer}/{missing[0]}: the field is missing")
        values = {**_DEFAULTS, **entry}
        for name, value in values.items():
            if not isinstance(value, str):
                raise PipelineError(f"{path}: {pointer}/{name}: the value is not text; write a string")
        binding = AclBinding(*(_value(path, pointer, name, values[name]) for name in BINDING_FIELDS))
        refusal = validate_new_acl(binding)
        if refusal is not None:
            raise PipelineError(f"{path}: {pointer}: {refusal.message}")
        bindings.setdefault(binding, pointer)
    return Step(path, bindings=bindings)


def _delete(path: str) -> Step:
    filters = []
    for pointer, entry in _entries(path, "filters"):
        for name, value in entry.items():
            if value is not None and not isinstance(value, str):
                raise PipelineError(f"{path}: {pointer}/{name}: the value is not text; write a string or null")
        given = {name: _value(path, pointer, name, value) for name, value in entry.items() if value is not None}
        acl_filter = AclBindingFilter(**given)
        refusal = validate_filter(acl_filter)
        if refusal is not None:
            raise PipelineError(f"{path}: {pointer}: {refusal.message}")
        filters.append(acl_filter)
    return Step(path, filters=FilterSet(filters))


def _value(path: str, pointer: str, name: str, text: str) -> Any:  # noqa: ANN401 - a text or a word
    words = _WORDS.get(name)
    if words is None:
        return text
    member = words.__members__.get(text)
    if member is None:
        known = ", ".join(words.__members__)
        raise PipelineError(
            f"{path}: {pointer}/{name}: `{text[:_MAX_SHOWN]}` is none of Kafka's words; send one of {known}"
        )
    return member


def _entries(path: str, wanted: str) -> Iterator[tuple[str, dict[str, Any]]]:
    body = _object(path, "", _json(path))
    other = "filters" if wanted == "bindings" else "bindings"
    if other in body:
        option = "--delete" if other == "filters" else "--create"
        raise PipelineError(f"{path}: /{other}: give this file to {option}")
    _refuse_unknown(path, "", body, ("context", wanted, "timeout_ms"))
    if not isinstance(body.get(wanted), list) or isinstance(body[wanted], _Pairs):
        raise PipelineError(f"{path}: /{wanted}: the field is missing or not a list")
    for number, each in enumerate(body[wanted]):
        pointer = f"/{wanted}/{number}"
        entry = _object(path, pointer, each)
        _refuse_unknown(path, pointer, entry, BINDING_FIELDS)
        yield pointer, entry


def _refuse_unknown(path: str, pointer: str, fields: Mapping[str, object], known: Sequence[str]) -> None:
    for name in fields:
        if name not in known:
            shown = name[:_MAX_SHOWN].replace("~", "~0").replace("/", "~1")
            raise PipelineError(f"{path}: {pointer}/{shown}: there is no such field; remove it")


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON with every key that came."""


def _object(path: str, pointer: str, value: object) -> dict[str, Any]:
    if not isinstance(value, _Pairs):
        raise PipelineError(f"{path}: {pointer or '/'}: not an object")
    fields = dict(value)
    if len(fields) != len(value):
        names = [name for name, _ in value]
        repeated = next(name for name in fields if names.count(name) > 1)
        raise PipelineError(f"{path}: {pointer}/{repeated[:_MAX_SHOWN]}: the key comes more than once; send it once")
    return fields


def _json(path: str) -> object:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as fault:
        raise PipelineError(f"{path}: can't be read: {fault.strerror}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise PipelineError(f"{path}: larger than {MAX_FILE_BYTES} bytes; split it")
    try:
        return json.loads(raw.decode(), object_pairs_hook=_Pairs)
    except UnicodeDecodeError:
        raise PipelineError(f"{path}: not UTF-8; encode it as UTF-8") from None
    except json.JSONDecodeError as fault:
        raise PipelineError(f"{path}: not JSON: {fault.msg} (line {fault.lineno}, column {fault.colno})") from None
    except (ValueError, RecursionError):
        raise PipelineError(f"{path}: a number is too long, or it nests too deep") from None
