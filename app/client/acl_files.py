"""Files of ACLs, for `klamm import`, `plan`, `apply` and `test`: opened, unpacked, checked, and read again."""

import io
import os
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import filterfalse
from pathlib import Path
from typing import IO

from app.client.acl_filters import denies
from app.client.file_problems import MAX_PROBLEMS, FileProblem, FilesError, shown_problem, unreadable
from app.client.words import counted
from app.core.kafka.bindings import KEEP, NewAcl
from app.formats.acl_entries import Problem
from app.formats.command_errors import UsageError
from app.formats.file_flags import NO_FLAGS, FileFlags
from app.formats.reading import FileSet
from app.formats.registry import AclFormat, Unrecognised, format_named, read_entries
from app.formats.source import Source

STANDARD_INPUT = "-"
MAX_COPIED_BYTES = 1024**3
"""Of a pipe, a device or standard input, which is copied to be read more than once; some million ACLs."""

_BUFFER_BYTES = 256 * 1024
_ENTRIES_BETWEEN_REPORTS = 1_000


class AclFiles:
    """The files of one command. They are read as one set, and what is wrong with them is told together."""

    def __init__(self, flags: FileFlags = NO_FLAGS) -> None:
        """Raises UsageError."""
        self.file_set = FileSet(flags.pass_over, flags.of_cluster)
        self.format = None if flags.format_name is None else format_given(flags.format_name)
        self._problems: list[FileProblem] = []
        self._stopped: str | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether enough is wrong, so that nothing more is read."""
        return self._stopped is not None

    def fail(self, problem: FileProblem) -> None:
        if self._stopped is None:
            self._problems.append(problem)
            if len(self._problems) >= MAX_PROBLEMS:
                self._stopped = problem.file

    def check(self) -> None:
        """Raises FilesError with all that is wrong with what was read, also if it has no ACLs."""
        readings = self.file_set.readings.values()
        # INVARIANT: files without any ACL are never taken as a wish to have none.
        if not self._problems and not any(each.acls for each in readings):
            for each in readings:
                self.fail(FileProblem(each.file, 1, None, each.refusal()))
        if self._problems:
            raise FilesError(self._problems, self._stopped)

    @contextmanager
    def open(self, path: str, *, is_in_folder: bool = False) -> Iterator["AclFile"]:
        """`-` is standard input. Raises FilesError if it can't be opened, or copied.

        A file in a folder may have another format than the one that is given, if its content shows that.
        """
        if path == STANDARD_INPUT:
            with _kept("<standard input>", sys.stdin.buffer) as (name, raw):
                yield AclFile(name, raw, self)
            return
        try:
            source = Path(path).open("rb", _BUFFER_BYTES)  # noqa: SIM115 - closed below
        except OSError as error:
            raise unreadable(path, error) from None
        with source:
            if stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                yield AclFile(path, source, self, is_in_folder=is_in_folder)
                return
            with _kept(path, source) as (name, raw):
                yield AclFile(name, raw, self)


class AclFile:
    """Can be read from its beginning any number of times.

    ACLs whose end has passed are skipped, as nobody wants them any more. `ended` counts them.
    """

    def __init__(self, name: str, raw: IO[bytes], files: AclFiles, *, is_in_folder: bool = False) -> None:
        self.name = name
        self._raw = raw
        self._files = files
        self._given = None if is_in_folder else files.format
        self._otherwise = files.format
        self.size = os.fstat(raw.fileno()).st_size
        """In bytes, packed if the file is."""
        self._denials = 0
        """How many of its ACLs deny."""
        self._checked: int | None = None
        """How many ACLs the check has found, with those that have ended."""
        self._now = datetime.fromtimestamp(time.time(), UTC)
        self.ended = 0
        self.line = 0
        """Where the last ACL begins."""

    @property
    def file_set(self) -> FileSet:
        return self._files.file_set

    @property
    def position(self) -> int:
        return self._raw.tell()

    def check(self, report: Callable[[int], None] = lambda _: None) -> int:
        """Returns the number of ACLs, repeats included; `report` gets the position now and then.

        Raises FilesError with all that is wrong, also if there are no ACLs.
        """
        at = self._denials = 0
        for at, acl in enumerate(self.acls(), 1):
            self._denials += denies(acl)
            if at % _ENTRIES_BETWEEN_REPORTS == 0:
                report(self.position)
        self._files.check()
        self._checked = at + self.ended
        return at

    def additions(self) -> Iterator[NewAcl]:
        """The ACLs to be added, every DENY first. Raises UsageError, also if the file has changed since the check."""
        if self._checked is None:
            self.check()
        # INVARIANT: what only adds removes no end or owner, as an older export that says there is none would.
        return map(_adding, self._denials_first())

    def _denials_first(self) -> Iterator[NewAcl]:
        # INVARIANT: however far an import gets, it allows nothing that the whole file denies.
        if not self._denials:
            yield from self.acls()
            return
        yield from filter(denies, self.acls())
        yield from filterfalse(denies, self.acls())

    def acls(self) -> Iterator[NewAcl]:
        """The ACLs in file order. What is wrong goes to the set of files.

        Raises UsageError if the file was checked and is now another one.
        """
        count = self.ended = 0
        now = self._now
        reading = self._files.file_set.reading(self.name)
        try:
            for line, found in read_entries(Source(self._raw), reading, self._given, otherwise=self._otherwise):
                if not isinstance(found, NewAcl):
                    self._fail(line, found)
                    if self._files.is_stopped:
                        return
                    continue
                count += 1
                if isinstance(found.expires_at, datetime) and found.expires_at <= now:
                    self.ended += 1
                else:
                    self.line = line
                    yield found
        except (OSError, EOFError, zlib.error) as error:
            fault = unreadable(self.name, error)
            if self._checked is not None:
                raise fault from None
            self._files.fail(fault.problem)
        reading.acls = count
        if (problem := reading.cluster_problem()) is not None:
            self._fail(1, [problem])
        # INVARIANT: nothing that came after the check, such as a DENY behind those that were read, is lost in silence.
        if self._checked is not None and count != self._checked:
            raise self._changed(f"it has {counted(count)}, not {self._checked}")

    def _fail(self, line: int, problems: Sequence[Problem]) -> None:
        if self._checked is not None:
            about = "it " if isinstance(problems[0], Unrecognised) else ""
            raise self._changed(f"{about}{problems[0]}", line)
        for each in problems:
            field = ".".join(each.place) or None
            whole = isinstance(each, Unrecognised)
            self._files.fail(FileProblem(self.name, line, field, shown_problem(each), is_of_whole=whole))

    def _changed(self, why: str, line: int = 1) -> UsageError:
        return UsageError(f"{self.name}:{line}: the file changed while it was being read ({shown_problem(why)})")


def _adding(acl: NewAcl) -> NewAcl:
    if acl.expires_at is not None and acl.owner is not None:
        return acl
    return NewAcl(acl.binding, acl.expires_at or KEEP, acl.owner or KEEP)


def format_given(name: str) -> AclFormat:
    """What --format names. Raises UsageError."""
    try:
        return format_named(name)
    except ValueError as error:
        raise UsageError(f"--format: {error}") from None


@contextmanager
def _kept(name: str, source: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """A copy of what can't be read twice: a pipe, a device, standard input."""
    # Without a buffer, nothing is left that its end would have to write to a full disk.
    with tempfile.TemporaryFile(buffering=0) as kept:
        try:
            _copy(source, kept)
        except OSError as error:
            raise UsageError(
                f"can't copy `{name}` to `{tempfile.gettempdir()}` ({error.strerror}); name another folder with TMPDIR"
            ) from None
        except _TooLongError:
            raise UsageError(
                f"`{name}` goes on after {MAX_COPIED_BYTES:,} bytes, more than is read of what is no file; write it to "
                "a file, and name that"
            ) from None
        yield name, io.BufferedReader(kept, _BUFFER_BYTES)


class _TooLongError(Exception):
    pass


def _copy(source: IO[bytes], target: io.FileIO) -> None:
    """Raises OSError or _TooLongError."""
    size = 0
    while some := source.read(_BUFFER_BYTES):
        size += len(some)
        if size > MAX_COPIED_BYTES:
            raise _TooLongError
        rest = memoryview(some)
        while rest:
            rest = rest[target.write(rest) :]
