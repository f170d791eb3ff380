"""The files that wanted ACLs come from: named one by one, or all of a folder. None is left out without a word."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from app.client.plan.desired import read_desired
from app.client.words import counted
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding
from app.formats.acl_entries import shown
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError

STANDARD_INPUT = "-"
MAX_FILES = 10_000
MAX_LINES = 20
"""Of each kind that is told; the numbers are always of all."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file, and how many ACLs it has."""

    path: str
    acls: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """All ACLs of all files."""

    acls: frozenset[AclBinding]
    named: tuple[str, ...]
    """What stood on the command line: files and folders."""
    sources: tuple[Source, ...]
    """In the order in which they were read."""
    left_out: tuple[str, ...]
    """What in folders has a name that begins with a dot."""
    repeated: tuple[tuple[AclBinding, str, str], ...]
    """What stands in more than one file: the ACL, the first file that has it, and another one."""

    def tell(self, command: str, err: TextIO) -> None:
        """Which files were read, unless one was named and is all there is."""
        if len(self.named) == 1 and self.sources[0].path == self.named[0]:
            return
        read = [f"{_quoted(each.path)}: {counted(each.acls)}" for each in self.sources]
        _some(command, err, f"{counted(len(read), 'file')} read", read)
        left_out = [f"{_quoted(each)} (its name begins with a dot)" for each in self.left_out]
        _some(command, err, f"{counted(len(left_out), 'name')} left out", left_out)
        repeated = [f"{shown(acl)}: in {_quoted(first)} and {_quoted(other)}" for acl, first, other in self.repeated]
        _some(command, err, f"{counted(len(repeated))} in more than one file", repeated)


def read_wanted(paths: Sequence[str], format_name: str | None) -> Wanted:
    """The ACLs of these files, and of all files in those of them that are folders. Raises UsageError."""
    left_out: list[str] = []
    seen: dict[str, str] = {}
    first_with: dict[AclBinding, str] = {}
    sources: list[Source] = []
    repeated: list[tuple[AclBinding, str, str]] = []
    for path in _files(paths, left_out):
        _check_new(path, seen)
        acls = read_desired(path, format_name)
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
    """Every file in it and in its folders, by name."""
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


def _check_new(path: str, seen: dict[str, str]) -> None:
    identity = path if path == STANDARD_INPUT else os.path.realpath(path)
    if identity in seen:
        raise UsageError(f"`{path}` is named a second time (as `{seen[identity]}`); name each file once")
    seen[identity] = path


def _quoted(path: str) -> str:
    return f"`{one_line('standard input' if path == STANDARD_INPUT else path)}`"


def _some(command: str, err: TextIO, title: str, lines: Sequence[str]) -> None:
    if lines:
        err.write(f"{command}: {title}:\n")
        err.writelines(f"  {line}\n" for line in lines[:MAX_LINES])
    if len(lines) > MAX_LINES:
        err.write(f"  ... and {len(lines) - MAX_LINES} more\n")
