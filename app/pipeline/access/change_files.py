"""Files of a change that is tried: ACLs to create in any format that `klamm plan` reads, saved plans, and bodies of
deleteAcls.

A saved plan is both: what it creates, and then what it deletes.
"""

import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.validation import validate_filter
from app.pipeline.access.candidates import Candidate, FilterSet, Step
from app.pipeline.history.schemas import BINDING_FIELDS
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.row_output import one_line

if TYPE_CHECKING:
    from app.formats.registry import AclFormat

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_BINDINGS = 1_000_000
"""In one file. All of a change goes to every part of the work."""

_MAX_SHOWN = 100
_PROBLEMS_SHOWN = 5
_HEAD_BYTES = 64 * 1024
_BODY = "klamm"
"""The format whose objects are bodies of createAcls, which the service gets as they are."""

_WORDS: dict[str, type[AclOperation | AclPermissionType | PatternType | ResourceType]] = {
    "resource_type": ResourceType,
    "pattern_type": PatternType,
    "operation": AclOperation,
    "permission_type": AclPermissionType,
}


def read_candidate(files: Sequence[tuple[str, str]], format_name: str | None = None) -> Candidate:
    """The change in these files: pairs of `create` or `delete` and a path, in order.

    Files with ACLs to create are in this format, or in the one that is recognised. Raises PipelineError with the file
    and the line, or the JSON pointer, of what can't be read and of what the service would refuse.
    """
    return Candidate([step for kind, path in files for step in _steps(kind, path, format_name)])


def _steps(kind: str, path: str, format_name: str | None) -> list[Step]:
    if not path:
        raise PipelineError(f"--{kind}: the name of a file is empty; leave it out")
    try:
        return _create(path, format_name) if kind == "create" else [_delete(path)]
    except PipelineError as fault:
        raise PipelineError(f"--{kind} {fault}") from None


def _create(path: str, format_name: str | None) -> list[Step]:
    # Under spark-submit they may be missing where other jobs run without them.
    try:
        from app.formats.registry import format_named  # noqa: PLC0415 - see above
        from app.formats.saved_plans import is_saved_plan  # noqa: PLC0415 - see above
    except ModuleNotFoundError as missing:
        raise PipelineError(f"files of ACLs are read by the package {missing.name}; install it here") from None
    try:
        given = None if format_name is None else format_named(format_name)
    except ValueError as fault:
        raise PipelineError(f"{path}: --format: {fault}") from None
    try:
        with _opened(path) as raw:
            head = raw.read(_HEAD_BYTES)
            raw.seek(0)
            if not head.strip():
                raise PipelineError(f"{path}: is empty; name a file with ACLs, or leave it out")
            if given is None and is_saved_plan(head):
                return _saved_plan(path, raw)
            return [_bindings(path, raw, given, head)]
    except (OSError, EOFError, zlib.error) as fault:
        reason = fault.strerror if isinstance(fault, OSError) and fault.strerror else "it is damaged"
        raise PipelineError(f"{path}: can't be read: {reason}") from None


def _bindings(path: str, raw: IO[bytes], given: "AclFormat | None", head: bytes) -> Step:
    from app.formats.registry import read_entries, unrecognised  # noqa: PLC0415 - as `_create`

    recognised, entries = read_entries(raw, given)
    found: dict[AclBinding, str] = {}
    problems: list[str] = []
    for line, entry in entries:
        if isinstance(entry, AclBinding):
            found.setdefault(entry, f"line {line}")
            if len(found) > MAX_BINDINGS:
                raise PipelineError(f"{path}: has more than {MAX_BINDINGS:,} ACLs; split it")
        elif recognised is None:
            raise PipelineError(one_line(f"{path}: {unrecognised(raw)}{_if_filters(head)}"))
        else:
            problems += [f"line {line}: {each}" for each in entry]
            if len(problems) > _PROBLEMS_SHOWN:
                break
    if problems:
        more = "; and more" if len(problems) > _PROBLEMS_SHOWN else ""
        raise PipelineError(one_line(f"{path}: {'; '.join(problems[:_PROBLEMS_SHOWN])}{more}{_if_filters(head)}"))
    is_body = recognised is not None and recognised.name == _BODY and not head.lstrip().startswith(b"[")
    return Step(path, bindings=found, is_one_call=is_body)


def _if_filters(head: bytes) -> str:
    return "; give a file with `filters` to --delete" if b'"filters"' in head else ""


def _saved_plan(path: str, raw: IO[bytes]) -> list[Step]:
    from app.formats.saved_plans import parse_saved_plan  # noqa: PLC0415 - as `_create`

    text = raw.read(MAX_FILE_BYTES + 1)
    if len(text) > MAX_FILE_BYTES:
        raise PipelineError(f"{path}: larger than {MAX_FILE_BYTES} bytes; plan less at once")
    plan = parse_saved_plan(text)
    if plan is None:
        raise PipelineError(f"{path}: is no plan that this version of klamm has saved; make it with klamm plan --save")
    exactly = [AclBindingFilter(**{name: getattr(acl, name) for name in BINDING_FIELDS}) for acl in plan.delete]
    return [
        Step(path, bindings=dict.fromkeys(plan.create, "create"), is_one_call=False),
        Step(path, filters=FilterSet(exactly), is_one_call=False),
    ]


def _opened(path: str) -> IO[bytes]:
    """The file; what can be read once only, as pipes, is held in memory."""
    file = Path(path).open("rb")  # noqa: SIM115 - closed by who asked for it, or below
    if file.seekable():
        return file
    with file:
        held = file.read(MAX_FILE_BYTES + 1)
    if len(held) > MAX_FILE_BYTES:
        raise PipelineError(f"{path}: larger than {MAX_FILE_BYTES} bytes; give a file, or split it")
    return io.BytesIO(held)


def _delete(path: str) -> Step:
    filters = []
    for pointer, entry in _filters_in(path):
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


def _filters_in(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    body = _object(path, "", _json(path))
    if "bindings" in body:
        raise PipelineError(f"{path}: /bindings: give this file to --create")
    if "klamm_plan" in body:
        raise PipelineError(f"{path}: /klamm_plan: give a saved plan to --create, which takes what it deletes as well")
    _refuse_unknown(path, "", body, ("context", "filters", "timeout_ms"))
    if not isinstance(body.get("filters"), list) or isinstance(body["filters"], _Pairs):
        raise PipelineError(f"{path}: /filters: the field is missing or not a list")
    for number, each in enumerate(body["filters"]):
        pointer = f"/filters/{number}"
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
