"""The folder of the state file, as the processes of one service share it.

`image.ndjson` is the file that a start reads. It is made beside itself and renamed, then only appended to. One process
writes at a time: whoever holds `writer.lock`. The service as a whole holds `service.lock`.

INVARIANT: folder and file belong to this user, and nobody else can write to them, also where a key seals the file.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO

from app.formats.lines import append_whole

_ROOT = 0
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_SYNC_BYTES = 8 * 1024 * 1024


class NotOursError(OSError):
    """Folder or file are not such that only this user can have written them. The text says what to do."""


class StateFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._locks: dict[str, int] = {}

    @property
    def image(self) -> Path:
        return self.path / "image.ndjson"

    @property
    def refused(self) -> Path:
        return self.path / "image.ndjson.refused"

    def lock_service(self) -> bool:
        """False if another service holds the folder; else this one holds it until it ends.

        Raises NotOursError, OSError.
        """
        return self._lock("service.lock")

    def lock_writer(self) -> bool:
        """Whether this process may write, among those of its service. Raises OSError."""
        return self._lock("writer.lock")

    def unlock_writer(self) -> None:
        descriptor = self._locks.pop("writer.lock", None)
        if descriptor is not None:
            os.close(descriptor)

    def _lock(self, name: str) -> bool:
        held = self._locks.get(name)
        if held is not None:
            if _is_at(self.path / name, held):
                return True
            # The folder was removed, and with it the lock that others try.
            os.close(self._locks.pop(name))
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._make()
        with self._open_folder() as folder:
            descriptor = os.open(name, flags, _FILE_MODE, dir_fd=folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            os.close(descriptor)
            if isinstance(fault, BlockingIOError):
                return False
            raise
        self._locks[name] = descriptor
        return True

    def _make(self) -> None:
        """Makes the folder, but no parent of it."""
        with suppress(FileExistsError):
            self.path.mkdir(mode=_FOLDER_MODE)

    @contextmanager
    def _open_folder(self) -> Iterator[int]:
        """The descriptor of the folder. Raises NotOursError, OSError."""
        try:
            descriptor = os.open(self.path, _FOLDER)
        except OSError:
            if self.path.is_symlink():
                raise NotOursError(f"`{self.path}` is a symbolic link; name the folder that it leads to") from None
            raise
        try:
            facts = os.fstat(descriptor)
            if facts.st_uid not in (_ROOT, os.geteuid()):
                raise NotOursError(
                    f"`{self.path}` belongs to user id {facts.st_uid}, but Klamm runs as user id {os.geteuid()}; "
                    "change its owner, or name another folder"
                )
            if facts.st_mode & _OTHERS_MAY_WRITE:
                raise NotOursError(
                    f"other users can write to `{self.path}` (mode {stat.S_IMODE(facts.st_mode):04o}); take that "
                    "permission away (chmod go-w), or name a folder inside it, which Klamm makes"
                )
            yield descriptor
        finally:
            os.close(descriptor)

    def open_image(self) -> IO[bytes]:
        """The state file, to be read. Raises NotOursError, OSError."""
        with self._open_folder() as folder:
            try:
                # Opening a pipe would wait for its other end.
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                descriptor = os.open(self.image.name, flags, dir_fd=folder)
            except OSError as fault:
                if fault.errno != errno.ELOOP:
                    raise
                raise NotOursError("it is a symbolic link; put the file itself there, or remove the link") from None
        stream = os.fdopen(descriptor, "rb", buffering=1024 * 1024)
        facts = os.fstat(descriptor)
        why = None
        if not stat.S_ISREG(facts.st_mode):
            why = "it is not a regular file; remove it"
        elif facts.st_uid != os.geteuid():
            why = f"it belongs to user id {facts.st_uid}, but Klamm runs as user id {os.geteuid()}; change its owner"
        elif facts.st_mode & _OTHERS_MAY_WRITE:
            mode = stat.S_IMODE(facts.st_mode)
            why = f"other users can write to it (mode {mode:04o}); take that permission away (chmod 600)"
        if why is not None:
            stream.close()
            raise NotOursError(why)
        return stream

    def set_aside(self, stream: IO[bytes]) -> bool:
        """Moves away the state file that was read, unless another has taken its place. Raises OSError."""
        if not self.lock_writer() or not _is_at(self.image, stream.fileno()):
            return False
        self.image.replace(self.refused)
        return True

    def begin(self) -> "NewImage":
        """Raises OSError. The caller holds the writer's lock."""
        self._make()
        fresh = self.path / "image.ndjson.new"
        fresh.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC
        with self._open_folder() as folder:
            return NewImage(self.image, fresh, os.open(fresh.name, flags, _FILE_MODE, dir_fd=folder))


class NewImage:
    """A state file being written, by one thread at a time. Once a method has raised OSError, it is of no use."""

    def __init__(self, image: Path, fresh: Path, descriptor: int) -> None:
        self.size = 0
        self._image = image
        self._fresh: Path | None = fresh
        self._descriptor = descriptor
        self._synced = 0
        # A thread that is left behind must not write to whatever has this descriptor's number by then.
        self._is_open = True
        self._turn = Lock()

    def append(self, lines: bytes) -> None:
        with self._turn:
            self._check()
            append_whole(self._descriptor, lines, self.size)
            self.size += len(lines)
            if self._fresh is not None and self.size - self._synced >= _SYNC_BYTES:
                # In parts, so that the last one does not take long.
                self._sync()

    def sync(self) -> None:
        with self._turn:
            self._check()
            self._sync()

    def show(self) -> None:
        """Makes this the state file, even after a power failure."""
        with self._turn:
            self._check()
            if self._fresh is None:
                return
            self._sync()
            self._fresh.replace(self._image)
            self._fresh = None
            _sync_folder(self._image.parent)

    def close(self) -> None:
        with self._turn:
            if not self._is_open:
                return
            self._is_open = False
            with suppress(OSError):
                if self._fresh is not None:
                    self._fresh.unlink(missing_ok=True)
            with suppress(OSError):
                os.close(self._descriptor)

    def _check(self) -> None:
        if not self._is_open:
            raise OSError(errno.EBADF, "the file is closed", str(self._image))
        if not _is_at(self._fresh or self._image, self._descriptor):
            raise FileNotFoundError(errno.ENOENT, "the file was removed", str(self._image))

    def _sync(self) -> None:
        os.fsync(self._descriptor)
        self._synced = self.size


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat(follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return os.path.samestat(there, os.fstat(descriptor))
