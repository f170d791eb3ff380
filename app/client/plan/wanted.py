"""The ACLs that files want. Files are named one by one, or all of a folder; none is left out silently."""

import io
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, TextIO

from app.client.words import counted
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding
from app.formats.acl_entries import shown
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError
from app.formats.registry import format_named, read_entries, unrecognised

STANDARD_INPUT = "-"
MAX_FILES = 10_000
MAX_STREAM_BYTES = 64 * 1024 * 1024
_LINES_SHOWN = 20
_PROBLEMS_SHOWN = 10


class Source(NamedTuple):
    path: str
    acls: int


@dataclass(frozen=True, slots=True)
class Wanted:
    acls: frozenset[AclBinding]
    named: tuple[str, ...]
    """The files and folders on the command line."""
    sources: tuple[Source, ...]
    left_out: tuple[str, ...]
    """Everything in the folders whose name begins with a dot."""
    repeated: tuple[tuple[AclBinding, str, str], ...]
    """ACLs of more than one file: the ACL, the first file that has it, and another one."""

    def print_sources(self, command: str, err: TextIO) -> None:
        """Prints nothing if the only file is the one that was named."""
        if len(self.named) == 1 and self.sources[0].path == self.named[0]:
            return
        read = [f"{_quoted(each.path)}: {counted(each.acls)}" for each in self.sources]
        left_out = [f"{_quoted(each)} (its name begins with a dot)" for each in self.left_out]
        repeated = [f"{shown(acl)}: in {_quoted(first)} and {_quoted(other)}" for acl, first, other in self.repeated]
        for title, lines in (
            (f"{counted(len(read), 'file')} read", read),
            (f"{counted(len(left_out), 'name')} left out", left_out),
            (f"{counted(len(repeated))} in more than one file", repeated),
        ):
            if lines:
                err.write(f"{command}: {title}:\n")
                err.writelines(f"  {line}\n" for line in lines[:_LINES_SHOWN])
            if len(lines) > _LINES_SHOWN:
                err.write(f"  ... and {len(lines) - _LINES_SHOWN} more\n")


def read_wanted(paths: Sequence[str], format_name: str | None) -> Wanted:
    """Raises UsageError."""
    left_out: list[str] = []
    seen: dict[str, str] = {}
    first_with: dict[AclBinding, str] = {}
    sources: list[Source] = []
    repeated: list[tuple[AclBinding, str, str]] = []
    for path in _files(paths, left_out):
        identity = path if path == STANDARD_INPUT else os.path.realpath(path)
        if identity in seen:
            raise UsageError(f"`{path}` is named a second time (as `{seen[identity]}`); name each file once")
        seen[identity] = path
        acls = read_file(path, format_name)
        sources.append(Source(path, len(acls)))
        for acl in acls:
            first = first_with.setdefault(acl, path)
            if first != path:
                repeated.append((acl, first, path))
    repeated.sort(key=lambda each: (sort_key(each[0]), each[2]))
    return Wanted(frozenset(first_with), tuple(paths), tuple(sources), tuple(left_out), tuple(repeated))


def _files(paths: Iterable[str], left_out: list[str]) -> Iterator[str]:
    for path in paths:
        if path != STANDARD_INPUT and Path(path).is_dir():
            found = list(_in_folder(path, left_out))
            if not found:
                raise UsageError(f"`{path}` has no files in it; a plan of nothing needs an empty file")
            yield from found
        else:
            yield path


def _in_folder(folder: str, left_out: list[str]) -> Iterator[str]:
    count = 0

    def fail(error: OSError) -> None:
        raise UsageError(f"`{error.filename}` can't be read ({error.strerror})") from None

    for place, folders, files in os.walk(folder, onerror=fail):
        hidden = sorted(each for each in (*folders, *files) if each.startswith("."))
        left_out += [str(Path(place) / each) for each in hidden]
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in folders:
            if (Path(place) / name).is_symlink():
                raise UsageError(
                    f"`{Path(place) / name}` is a link to another folder; name that one, and move the link"
                )
        for name in sorted(each for each in files if not each.startswith(".")):
            path = Path(place) / name
            if not path.is_file():
                raise UsageError(f"`{path}` is no file; move it out of `{folder}`, or name the files one by one")
            count += 1
            if count > MAX_FILES:
                raise UsageError(f"`{folder}` has more than {MAX_FILES} files; is it the right folder?")
            yield str(path)


def read_file(path: str, format_name: str | None) -> frozenset[AclBinding]:
    """`-` is standard input; without a format, it is recognised. Raises UsageError."""
    try:
        given = None if format_name is None else format_named(format_name)
    except ValueError as error:
        raise UsageError(f"--format: {error}") from None
    found: set[AclBinding] = set()
    problems: list[str] = []
    try:
        with _opened(path) as raw:
            recognised, entries = read_entries(raw, given)
            for line, entry in entries:
                if isinstance(entry, AclBinding):
                    found.add(entry)
                elif recognised is None:
                    raise UsageError(f"`{path}` {unrecognised(raw)}")
                else:
                    problems += [f"line {line}: {each}" for each in entry]
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is damaged"
        raise UsageError(f"`{path}` can't be read ({reason})") from None
    if problems:
        more = f"; and {len(problems) - _PROBLEMS_SHOWN} more" if len(problems) > _PROBLEMS_SHOWN else ""
        raise UsageError(f"`{path}` can't be planned with: {'; '.join(problems[:_PROBLEMS_SHOWN])}{more}")
    return frozenset(found)


def _opened(path: str) -> IO[bytes]:
    """A pipe, which can be read only once, is read into memory."""
    if path == STANDARD_INPUT:
        name, raw = "standard input", sys.stdin.buffer.read(MAX_STREAM_BYTES + 1)
    else:
        file = Path(path).open("rb")  # noqa: SIM115 - closed by the caller, or below
        if file.seekable():
            return file
        with file:
            name, raw = f"`{path}`", file.read(MAX_STREAM_BYTES + 1)
    if len(raw) > MAX_STREAM_BYTES:
        raise UsageError(f"{name} is longer than {MAX_STREAM_BYTES} bytes; give a file")
    return io.BytesIO(raw)


def _quoted(path: str) -> str:
    return f"`{one_line('standard input' if path == STANDARD_INPUT else path)}`"
