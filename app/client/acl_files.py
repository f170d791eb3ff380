"""Files of ACLs, for `klamm import`, `plan` and `apply`: opened, unpacked, checked, and read again."""

import io
import os
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import filterfalse
from pathlib import Path
from typing import IO

from app.client.acl_filters import denies
from app.core.kafka.bindings import KEEP, NewAcl
from app.formats.acl_entries import Entry
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError
from app.formats.reading import FileSet
from app.formats.registry import AclFormat, format_named, read_entries
from app.formats.source import Source

STANDARD_INPUT = "-"
MAX_PROBLEMS = 20
"""Reading stops after the line that reaches this."""

MAX_COPIED_BYTES = 1024**3
"""Of a pipe, a device or standard input, which is copied to be read more than once; some million ACLs."""

_MAX_PROBLEM_CHARACTERS = 400
_BUFFER_BYTES = 256 * 1024
_ENTRIES_BETWEEN_REPORTS = 1_000


class AclFile:
    """Can be read from its beginning any number of times.

    ACLs whose end has passed are skipped, as nobody wants them any more. `ended` counts them.
    """

    def __init__(self, name: str, raw: IO[bytes], given: AclFormat | None = None, files: FileSet | None = None) -> None:
        self.name = name
        self._raw = raw
        self._given = given
        self._files = files or FileSet()
        self.size = os.fstat(raw.fileno()).st_size
        """In bytes, packed if the file is."""
        self._denials = 1
        """How many of its ACLs deny; 1 until that is known."""
        self._checked = False
        self._now = datetime.fromtimestamp(time.time(), UTC)
        self.ended = 0

    @property
    def position(self) -> int:
        return self._raw.tell()

    def check(self, report: Callable[[int], None]) -> int:
        """Returns the number of ACLs, repeats included; `report` gets the position now and then. Raises UsageError."""
        at = self._denials = 0
        for at, acl in enumerate(self.acls(), 1):
            self._denials += denies(acl)
            if at % _ENTRIES_BETWEEN_REPORTS == 0:
                report(self.position)
        self._checked = True
        return at

    def additions(self) -> Iterator[NewAcl]:
        """The ACLs to be added, every DENY first. Raises UsageError, also if the file has changed since the check."""
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
        """The ACLs in file order. Raises UsageError at its end with the first problems, each with its line."""
        problems: list[str] = []
        self.ended = 0
        for line, found in self._entries():
            if not isinstance(found, NewAcl):
                if self._checked:
                    why = one_line(found[0], _MAX_PROBLEM_CHARACTERS)
                    raise UsageError(f"{self.name}:{line}: the file changed while it was being read ({why})")
                problems += [f"{self.name}:{line}: {one_line(each, _MAX_PROBLEM_CHARACTERS)}" for each in found]
                if len(problems) >= MAX_PROBLEMS:
                    problems.append(f"{self.name}: the check stopped here; there may be more")
                    break
            elif isinstance(found.expires_at, datetime) and found.expires_at <= self._now:
                self.ended += 1
            else:
                yield found
        if problems:
            raise UsageError("nothing was written; fix this first:", *problems)

    def _entries(self) -> Iterator[Entry]:
        try:
            yield from read_entries(Source(self._raw), self._files.reading(self.name), self._given)
        except (OSError, EOFError, zlib.error) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else "it is damaged"
            raise UsageError(f"`{self.name}` can't be read ({why})") from None


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
def open_acls(path: str, given: AclFormat | None = None) -> Iterator[AclFile]:
    """`-` is standard input. Without `given`, the content decides the format. Raises UsageError."""
    if path == STANDARD_INPUT:
        with _kept("<standard input>", sys.stdin.buffer, given) as file:
            yield file
        return
    try:
        source = Path(path).open("rb", _BUFFER_BYTES)  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"`{path}` can't be read ({error.strerror})") from None
    with source:
        if stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            yield AclFile(path, source, given)
            return
        with _kept(path, source, given) as file:
            yield file


@contextmanager
def _kept(name: str, source: IO[bytes], given: AclFormat | None) -> Iterator[AclFile]:
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
        yield AclFile(name, io.BufferedReader(kept, _BUFFER_BYTES), given)


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
