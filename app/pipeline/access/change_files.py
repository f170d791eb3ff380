"""The files of a change: ACLs to create in any format that `klamm plan` reads, saved plans, and bodies of deleteAcls.

Only the driver loads this module: the packages that `app.formats` needs may be missing on executors.
"""

import io
import os
import stat
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.filters import AclBindingFilter
from app.formats.arguments import one_line
from app.formats.delete_bodies import parse_delete_body
from app.formats.file_flags import NO_FLAGS, FileFlags
from app.formats.reading import FileSet
from app.formats.registry import AclFormat, Unrecognised, format_named, read_entries
from app.formats.saved_plans import SavedPlanFault, is_saved_plan, parse_saved_plan
from app.formats.source import Source
from app.pipeline.access.changes import Candidate, FilterSet, Step
from app.pipeline.history.schemas import BINDING_FIELDS
from app.pipeline.spark.errors import PipelineError

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_BINDINGS = 1_000_000
"""The most in one file, as the whole change goes to every task."""

_PROBLEMS_SHOWN = 5
_HEAD_BYTES = 64 * 1024
_CREATE_ACLS = "klamm"
"""The format whose objects are bodies of createAcls, which the service gets as they are."""


def read_candidate(files: Sequence[tuple[str, str]], flags: FileFlags = NO_FLAGS) -> Candidate:
    """The change in these files: pairs of `create` or `delete` and a path, in order.

    Raises PipelineError, with file and place, for anything that can't be read or that the service would refuse.
    """
    try:
        acl_format = None if flags.format_name is None else format_named(flags.format_name)
    except ValueError as fault:
        raise PipelineError(f"--format: {fault}") from None
    file_set = FileSet(flags.pass_over, flags.of_cluster)
    steps = [step for kind, path in files for step in _steps(kind, path, acl_format, file_set)]
    readings = file_set.readings.values()
    if readings and not any(each.acls for each in readings):
        # INVARIANT: files without any ACL are never taken for a change that does nothing.
        raise PipelineError(one_line("; ".join(f"--create {each.file}: {each.refusal()}" for each in readings)))
    return Candidate(steps, file_set.notes())


def _steps(kind: str, path: str, acl_format: AclFormat | None, file_set: FileSet) -> list[Step]:
    if not path:
        raise PipelineError(f"--{kind}: the name of a file is empty; leave it out")
    try:
        with _opened(path) as raw:
            return _created(path, raw, acl_format, file_set) if kind == "create" else [_deleted(path, raw)]
    except PipelineError as fault:
        reason = str(fault)
    except (OSError, EOFError, zlib.error) as fault:
        reason = f"can't be read: {getattr(fault, 'strerror', None) or 'it is damaged'}"
    raise PipelineError(one_line(f"--{kind} {path}: {reason}"))


def _opened(path: str) -> IO[bytes]:
    file = Path(path).open("rb")  # noqa: SIM115 - closed by the caller, or below
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    with file:
        return io.BytesIO(_whole(file))


def _whole(raw: IO[bytes]) -> bytes:
    text = raw.read(MAX_FILE_BYTES + 1)
    if len(text) > MAX_FILE_BYTES:
        raise PipelineError(f"larger than {MAX_FILE_BYTES} bytes; split it")
    return text


def _created(path: str, raw: IO[bytes], acl_format: AclFormat | None, file_set: FileSet) -> list[Step]:
    head = raw.read(_HEAD_BYTES)
    raw.seek(0)
    if not head.strip():
        raise PipelineError("is empty; name a file with ACLs, or leave it out")
    if acl_format is None and is_saved_plan(head):
        return _saved_plan(path, raw)
    return [_bindings(path, raw, acl_format, file_set, head)]


def _bindings(path: str, raw: IO[bytes], acl_format: AclFormat | None, file_set: FileSet, head: bytes) -> Step:
    way_out = "; give a file with `filters` to --delete" if b'"filters"' in head else ""
    reading = file_set.reading(path)
    bindings: dict[AclBinding, str] = {}
    problems: list[str] = []
    for line, entry in read_entries(Source(raw), reading, acl_format):
        if isinstance(entry, NewAcl):
            bindings.setdefault(entry.binding, f"line {line}")
            if len(bindings) > MAX_BINDINGS:
                raise PipelineError(f"has more than {MAX_BINDINGS:,} ACLs; split it")
        else:
            problems += [str(each) if isinstance(each, Unrecognised) else f"line {line}: {each}" for each in entry]
            if len(problems) > _PROBLEMS_SHOWN:
                break
    reading.acls = len(bindings)
    if (unknown := reading.cluster_problem()) is not None:
        problems.append(unknown)
    if problems:
        more = "; and more" if len(problems) > _PROBLEMS_SHOWN else ""
        raise PipelineError(f"{'; '.join(problems[:_PROBLEMS_SHOWN])}{more}{way_out}")
    if way_out and not bindings:
        raise PipelineError(f"{reading.refusal()}{way_out}")
    is_body = reading.format_name == _CREATE_ACLS and not head.lstrip().startswith(b"[")
    return Step(path, bindings=bindings, is_one_call=is_body)


def _saved_plan(path: str, raw: IO[bytes]) -> list[Step]:
    try:
        plan = parse_saved_plan(_whole(raw))
    except SavedPlanFault as fault:
        raise PipelineError(str(fault)) from None
    created, deleted = ([each.binding for each in some] for some in (plan.create, plan.delete))
    exactly = [AclBindingFilter(**{name: getattr(acl, name) for name in BINDING_FIELDS}) for acl in deleted]
    return [
        Step(path, bindings=dict.fromkeys(created, "create"), is_one_call=False),
        Step(path, filters=FilterSet(exactly), is_one_call=False),
    ]


def _deleted(path: str, raw: IO[bytes]) -> Step:
    text = _whole(raw)
    if is_saved_plan(text):
        raise PipelineError("give a saved plan to --create, which also applies its deletes")
    try:
        return Step(path, filters=FilterSet(parse_delete_body(text)))
    except ValueError as fault:
        way_out = "; give ACLs to create to --create" if b'"bindings"' in text[:_HEAD_BYTES] else ""
        raise PipelineError(f"{fault}{way_out}") from None
