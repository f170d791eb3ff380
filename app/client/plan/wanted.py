"""The ACLs that files ask for. Files are named singly, or by their folder; none is left out silently."""

import gc
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from app.client.acl_files import STANDARD_INPUT, format_given, open_acls
from app.client.words import counted
from app.core.collection import collection_paused
from app.core.index.table import sort_key
from app.core.kafka.bindings import KEEP, AclBinding, AclTerms, NewAcl
from app.core.readable import readable_acl
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError

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

    def print_sources(self, command: str, err: TextIO) -> None:
        """Prints nothing if the only file is the one that was named, unless some of its ACLs have ended."""
        only = len(self.named) == 1 and self.sources[0].path == self.named[0]
        if only and not self.sources[0].ended:
            return
        read = list(map(str, self.sources))
        left_out = [f"{_quoted(each)} (its name begins with a dot)" for each in self.left_out]
        repeated = [
            f"{readable_acl(acl)}: in {_quoted(first)} and {_quoted(other)}" for acl, first, other in self.repeated
        ]
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
    acls: dict[AclBinding, NewAcl] = {}
    sources: list[Source] = []
    repeated: list[tuple[AclBinding, str, str]] = []
    for path in _files(paths, left_out):
        identity = path if path == STANDARD_INPUT else os.path.realpath(path)
        if identity in seen:
            raise UsageError(f"`{path}` is given twice (first as `{seen[identity]}`); give each file once")
        seen[identity] = path
        found, ended = read_file(path, format_name)
        sources.append(Source(path, len(found), ended))
        if not acls:
            acls, first_with = found, dict.fromkeys(found, path)
            continue
        for binding, acl in found.items():
            first = first_with.setdefault(binding, path)
            if first != path:
                repeated.append((binding, first, path))
                acls[binding] = _joined(acl, acls[binding], first, path)
            else:
                acls[binding] = acl
    if not acls:
        # INVARIANT: files without any ACL are never taken as a wish to have none.
        raise UsageError(
            f"the files have no ACL that is still in effect ({sum(each.ended for each in sources)} have ended)"
        )
    repeated.sort(key=lambda each: (sort_key(each[0]), each[2]))
    return Wanted(acls, tuple(paths), tuple(sources), tuple(left_out), tuple(repeated))


def read_file(path: str, format_name: str | None) -> tuple[dict[AclBinding, NewAcl], int]:
    """The ACLs, and how many more there are whose end has passed. `-` is standard input. Raises UsageError."""
    given = None if format_name is None else format_given(format_name)
    acls: dict[AclBinding, NewAcl] = {}
    with open_acls(path, given) as file, collection_paused():
        for acl in file.acls():
            other = acls.setdefault(acl.binding, acl)
            if other is not acl:
                acls[acl.binding] = _joined(acl, other, path)
        if len(acls) >= _MANY:
            gc.freeze()
        return acls, file.ended


def _joined(acl: NewAcl, other: NewAcl, *paths: str) -> NewAcl:
    """The ACL with the terms that either gives. Raises UsageError if they give different ones."""
    for name in AclTerms._fields:
        said = {getattr(each, name) for each in (acl, other)} - {KEEP}
        if len(said) > 1:
            where = " and ".join(map(_quoted, paths))
            raise UsageError(f"{readable_acl(acl.binding)} has two different values of `{name}` in {where}; keep one")
    return other.then(acl)


def _files(paths: Iterable[str], left_out: list[str]) -> Iterator[str]:
    for path in paths:
        if path != STANDARD_INPUT and Path(path).is_dir():
            found = list(_in_folder(path, left_out))
            if not found:
                raise UsageError(f"`{path}` has no files in it; name a folder with files of ACLs")
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
