"""The ACLs that files ask for. Files are named singly, or by their folder; none is left out silently."""

import gc
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from app.client.acl_files import STANDARD_INPUT, AclFile, AclFiles
from app.client.file_problems import FileProblem, UnreadableError, shown_problem
from app.client.words import counted
from app.core.collection import collection_paused
from app.core.index.table import sort_key
from app.core.kafka.bindings import KEEP, AclBinding, AclTerms, NewAcl
from app.formats.acl_entries import shown
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError
from app.formats.file_flags import NO_FLAGS, FileFlags
from app.formats.reading import FileSet

MAX_FILES = 10_000
_MANY = 100_000
"""ACLs of a file that later collections pass over."""
_LINES_SHOWN = 20


class Source(NamedTuple):
    path: str
    acls: int
    ended: int = 0
    """How many more ACLs it has whose end has passed."""

    def __str__(self) -> str:
        ended = f", and {counted(self.ended)} that ended" if self.ended else ""
        return f"{_quoted(self.path)}: {counted(self.acls)}{ended}"


@dataclass(frozen=True, slots=True)
class Wanted:
    acls: Mapping[AclBinding, NewAcl]
    named: tuple[str, ...]
    """The files and folders on the command line."""
    sources: tuple[Source, ...]
    left_out: tuple[str, ...]
    """Everything in the folders whose name begins with a dot."""
    repeated: tuple[tuple[AclBinding, str, str], ...]
    """ACLs of more than one file: the ACL, the first file that has it, and another one."""
    file_set: FileSet

    def print_sources(self, command: str, err: TextIO, output: str = "text") -> None:
        """Prints nothing if the only file is the one that was named, unless some of its ACLs have ended.

        What must not be missed of the files is printed here unless the output is a text, which has it itself.
        """
        if output != "text":
            err.writelines(f"{command}: {note}\n" for note in self.file_set.notes())
        only = len(self.named) == 1 and self.sources[0].path == self.named[0]
        if only and not self.sources[0].ended:
            return
        read = list(map(str, self.sources))
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


def read_wanted(paths: Sequence[str], flags: FileFlags = NO_FLAGS) -> Wanted:
    """Raises UsageError; FilesError with all that is wrong with the files."""
    left_out: list[str] = []
    files = AclFiles(flags)
    wanted = _Collected(files)
    sources: list[Source] = []
    for path, is_in_folder in _each_once(paths, left_out):
        sources.append(wanted.read(path, is_in_folder=is_in_folder))
        if files.is_stopped:
            break
    files.check()
    if not wanted.acls:
        # INVARIANT: files without any ACL are never taken as a wish to have none.
        raise UsageError(
            f"the files have no ACL that is still in effect ({sum(each.ended for each in sources)} have ended)"
        )
    repeated = sorted(wanted.repeated, key=lambda each: (sort_key(each[0]), each[2]))
    return Wanted(wanted.acls, tuple(paths), tuple(sources), tuple(left_out), tuple(repeated), files.file_set)


class _Collected:
    """The ACLs of the files that were read so far."""

    def __init__(self, files: AclFiles) -> None:
        self.acls: dict[AclBinding, NewAcl] = {}
        self.repeated: list[tuple[AclBinding, str, str]] = []
        self._files = files
        self._first_with: dict[AclBinding, str] = {}

    def read(self, path: str, *, is_in_folder: bool) -> Source:
        acls: dict[AclBinding, NewAcl] = {}
        earlier = self.acls
        ended = 0
        try:
            with self._files.open(path, is_in_folder=is_in_folder) as file, collection_paused():
                for acl in file.acls():
                    other = acls.setdefault(acl.binding, acl)
                    if other is not acl:
                        self._compare(acl, other, file)
                        acls[acl.binding] = other.then(acl)
                    if earlier and acl.binding in earlier:
                        self._compare(acl, earlier[acl.binding], file, self._first_with[acl.binding])
                ended = file.ended
        except UnreadableError as fault:
            self._files.fail(fault.problem)
        if len(acls) >= _MANY:
            gc.freeze()
        self._add(path, acls)
        return Source(path, len(acls), ended)

    def _add(self, path: str, acls: dict[AclBinding, NewAcl]) -> None:
        if not self.acls:
            self.acls, self._first_with = acls, dict.fromkeys(acls, path)
            return
        for binding, acl in acls.items():
            first = self._first_with.setdefault(binding, path)
            if first != path:
                self.repeated.append((binding, first, path))
                self.acls[binding] = self.acls[binding].then(acl)
            else:
                self.acls[binding] = acl

    def _compare(self, acl: NewAcl, other: NewAcl, file: AclFile, first: str = "") -> None:
        """If both give an end or owner and not the same, that is wrong with the file. `first` has the other one."""
        where = f"here and in {_quoted(first)}" if first else "in this file"
        for name in AclTerms._fields:
            said = {getattr(each, name) for each in (acl, other)} - {KEEP}
            if len(said) > 1:
                problem = shown_problem(f"{shown(acl.binding)} has two different values of `{name}` {where}; keep one")
                self._files.fail(FileProblem(file.name, file.line, name, problem))


def _each_once(paths: Iterable[str], left_out: list[str]) -> list[tuple[str, bool]]:
    """The files, and whether each is in a folder that was named."""
    seen: dict[str, str] = {}
    every: list[tuple[str, bool]] = []
    for path, is_in_folder in _files(paths, left_out):
        identity = path if path == STANDARD_INPUT else os.path.realpath(path)
        if identity in seen:
            raise UsageError(f"`{path}` is given twice (first as `{seen[identity]}`); give each file once")
        seen[identity] = path
        every.append((path, is_in_folder))
    return every


def _files(paths: Iterable[str], left_out: list[str]) -> Iterator[tuple[str, bool]]:
    for path in paths:
        if path != STANDARD_INPUT and Path(path).is_dir():
            found = list(_in_folder(path, left_out))
            if not found:
                raise UsageError(f"`{path}` has no files in it; name a folder with files of ACLs")
            yield from ((each, True) for each in found)
        else:
            yield path, False


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
                    f"`{Path(place) / name}` is a link to another folder; name that folder itself, and move the link "
                    "away"
                )
        for name in sorted(each for each in files if not each.startswith(".")):
            path = Path(place) / name
            if not path.is_file():
                raise UsageError(
                    f"`{path}` is not a regular file; move it out of `{folder}`, or name the files one by one"
                )
            count += 1
            if count > MAX_FILES:
                raise UsageError(f"`{folder}` has more than {MAX_FILES} files; is it the right folder?")
            yield str(path)


def _quoted(path: str) -> str:
    return f"`{one_line('standard input' if path == STANDARD_INPUT else path)}`"
