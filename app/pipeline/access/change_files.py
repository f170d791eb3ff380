"""The files of a change: ACLs to create in any format that `klamm plan` reads, saved plans, and bodies of deleteAcls.

Only the driver loads this module: the packages that `app.formats` needs may be missing on executors.
"""

import io
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.validation import validate_filter
from app.formats.arguments import one_line
from app.formats.json_walk import Pairs, load_pairs
from app.formats.registry import AclFormat, format_named, read_entries, unrecognised
from app.formats.saved_plans import is_saved_plan, parse_saved_plan
from app.pipeline.access.answers import CODES
from app.pipeline.access.changes import Candidate, FilterSet, Step
from app.pipeline.history.schemas import BINDING_FIELDS
from app.pipeline.spark.errors import PipelineError

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_BINDINGS = 1_000_000
"""In one file. The whole change goes to every task."""

_MAX_SHOWN = 100
_PROBLEMS_SHOWN = 5
_HEAD_BYTES = 64 * 1024
_CREATE_ACLS = "klamm"
"""The format whose objects are bodies of createAcls, which the service gets as they are."""


def read_candidate(files: Sequence[tuple[str, str]], format_name: str | None = None) -> Candidate:
    """The change in these files: pairs of `create` or `delete` and a path, in order.

    Raises PipelineError with the file and the line, or the JSON pointer, of what can't be read and of what the service
    would refuse.
    """
    return Candidate([step for kind, path in files for step in _steps(kind, path, format_name)])


def _steps(kind: str, path: str, format_name: str | None) -> list[Step]:
    if not path:
        raise PipelineError(f"--{kind}: the name of a file is empty; leave it out")
    try:
        with _opened(path) as raw:
            return _created(path, raw, format_name) if kind == "create" else [_deleted(path, raw)]
    except PipelineError as fault:
        reason = str(fault)
    except (OSError, EOFError, zlib.error) as fault:
        reason = f"can't be read: {getattr(fault, 'strerror', None) or 'it is damaged'}"
    raise PipelineError(one_line(f"--{kind} {path}: {reason}"))


def _opened(path: str) -> IO[bytes]:
    file = Path(path).open("rb")  # noqa: SIM115 - closed by the caller, or below
    if file.seekable():
        return file
    with file:
        return io.BytesIO(_whole(file))


def _whole(raw: IO[bytes]) -> bytes:
    text = raw.read(MAX_FILE_BYTES + 1)
    if len(text) > MAX_FILE_BYTES:
        raise PipelineError(f"larger than {MAX_FILE_BYTES} bytes; split it")
    return text


def _created(path: str, raw: IO[bytes], format_name: str | None) -> list[Step]:
    try:
        given = None if format_name is None else format_named(format_name)
    except ValueError as fault:
        raise PipelineError(f"--format: {fault}") from None
    head = raw.read(_HEAD_BYTES)
    raw.seek(0)
    if not head.strip():
        raise PipelineError("is empty; name a file with ACLs, or leave it out")
    if given is None and is_saved_plan(head):
        return _saved_plan(path, raw)
    return [_bindings(path, raw, given, head)]


def _bindings(path: str, raw: IO[bytes], given: AclFormat | None, head: bytes) -> Step:
    recognised, entries = read_entries(raw, given)
    way_out = "; give a file with `filters` to --delete" if b'"filters"' in head else ""
    found: dict[AclBinding, str] = {}
    problems: list[str] = []
    for line, entry in entries:
        if isinstance(entry, NewAcl):
            found.setdefault(entry.binding, f"line {line}")
            if len(found) > MAX_BINDINGS:
                raise PipelineError(f"has more than {MAX_BINDINGS:,} ACLs; split it")
        elif recognised is None:
            raise PipelineError(f"{unrecognised(raw)}{way_out}")
        else:
            problems += [f"line {line}: {each}" for each in entry]
            if len(problems) > _PROBLEMS_SHOWN:
                break
    if problems:
        more = "; and more" if len(problems) > _PROBLEMS_SHOWN else ""
        raise PipelineError(f"{'; '.join(problems[:_PROBLEMS_SHOWN])}{more}{way_out}")
    is_body = recognised is not None and recognised.name == _CREATE_ACLS and not head.lstrip().startswith(b"[")
    return Step(path, bindings=found, is_one_call=is_body)


def _saved_plan(path: str, raw: IO[bytes]) -> list[Step]:
    plan = parse_saved_plan(_whole(raw))
    if plan is None:
        raise PipelineError("is no plan that this version of klamm has saved; make it with klamm plan --save")
    created, deleted = ([each.binding for each in some] for some in (plan.create, plan.delete))
    exactly = [AclBindingFilter(**{name: getattr(acl, name) for name in BINDING_FIELDS}) for acl in deleted]
    return [
        Step(path, bindings=dict.fromkeys(created, "create"), is_one_call=False),
        Step(path, filters=FilterSet(exactly), is_one_call=False),
    ]


def _deleted(path: str, raw: IO[bytes]) -> Step:
    body = _object("", _json(_whole(raw)))
    for name, way_out in (
        ("bindings", "give this file to --create"),
        ("klamm_plan", "give a saved plan to --create, which takes what it deletes as well"),
    ):
        if name in body:
            raise PipelineError(f"/{name}: {way_out}")
    _refuse_unknown("", body, ("context", "filters", "timeout_ms"))
    filters = body.get("filters")
    if not isinstance(filters, list) or isinstance(filters, Pairs):
        raise PipelineError("/filters: the field is missing or not a list")
    return Step(path, filters=FilterSet([_filter(f"/filters/{number}", each) for number, each in enumerate(filters)]))


def _filter(pointer: str, value: object) -> AclBindingFilter:
    given = _object(pointer, value)
    _refuse_unknown(pointer, given, BINDING_FIELDS)
    fields = {name: each for name, each in given.items() if each is not None}
    for name, text in fields.items():
        if not isinstance(text, str):
            raise PipelineError(f"{pointer}/{name}: the value is not text; write a string or null")
        if (words := CODES.get(name)) is not None:
            if text not in words.__members__:
                raise PipelineError(
                    f"{pointer}/{name}: `{text[:_MAX_SHOWN]}` is none of Kafka's words; send one of "
                    f"{', '.join(words.__members__)}"
                )
            fields[name] = words[text]
    acl_filter = AclBindingFilter(**fields)
    refusal = validate_filter(acl_filter)
    if refusal is not None:
        raise PipelineError(f"{pointer}: {refusal.message}")
    return acl_filter


def _refuse_unknown(pointer: str, fields: dict[str, Any], known: Sequence[str]) -> None:
    for name in fields:
        if name not in known:
            shown = name[:_MAX_SHOWN].replace("~", "~0").replace("/", "~1")
            raise PipelineError(f"{pointer}/{shown}: there is no such field; remove it")


def _object(pointer: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Pairs):
        raise PipelineError(f"{pointer or '/'}: not an object")
    fields = dict(value)
    if len(fields) != len(value):
        names = [name for name, _ in value]
        repeated = next(name for name in fields if names.count(name) > 1)
        raise PipelineError(f"{pointer}/{repeated[:_MAX_SHOWN]}: the key comes more than once; send it once")
    return fields


def _json(raw: bytes) -> object:
    try:
        return load_pairs(raw)
    except UnicodeDecodeError:
        raise PipelineError("not UTF-8; encode it as UTF-8") from None
    except json.JSONDecodeError as fault:
        raise PipelineError(f"not JSON: {fault.msg} (line {fault.lineno}, column {fault.colno})") from None
    except (ValueError, RecursionError):
        raise PipelineError("a number is too long, or it nests too deep") from None
