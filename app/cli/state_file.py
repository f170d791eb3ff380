"""What settings say about the state file: options for the runtime, and the folder that only one service may hold."""

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from app.formats.command_errors import UsageError
from app.formats.database_url import DatabaseUrl
from app.formats.feed_seals import MAX_KEY_BYTES, MIN_KEY_BYTES
from app.formats.secret_files import refuse_if_open
from app.runtime.options import StateOptions
from app.runtime.state.files import NotOursError, StateFolder
from app.settings.model import Settings

# With any other fault the replicas serve, and the file may still be read.
_WRONG_PATH = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG})

_log = logging.getLogger(__name__)


def state_of(settings: Settings) -> StateOptions | None:
    """Raises UsageError if the key can't be used."""
    if settings.state_path is None:
        return None
    return StateOptions(
        path=settings.state_path,
        origin=_origin_of(settings),
        max_age_s=settings.state_max_age_ms / 1000,
        key=None if settings.state_hmac_key_file is None else _key_in(settings.state_hmac_key_file),
        cluster_id=settings.cluster_id,
    )


@contextmanager
def state_folder_held(settings: Settings) -> Iterator[None]:
    """Holds the folder for this service.

    Raises UsageError if another service holds it, others can write to it, or it can't be a folder.
    """
    state_of(settings)  # the key is checked here, once, and not first in each worker
    if settings.state_path is not None:
        folder = StateFolder(settings.state_path)
        try:
            is_free = folder.lock_service()
        except NotOursError as fault:
            raise UsageError(f"state.path: {fault}") from None
        except OSError as fault:
            if fault.errno in _WRONG_PATH:
                raise UsageError(
                    f"state.path: can't create the folder `{folder.path}` ({fault.strerror}); name one whose parent "
                    "exists"
                ) from None
            _log.warning("state_folder_unusable", extra={"folder": folder.path, "why": str(fault)})
        else:
            if not is_free:
                raise UsageError(f"state.path: another service keeps its image in `{folder.path}`; name another folder")
    yield


def _origin_of(settings: Settings) -> frozenset[str]:
    """A digest for each address of the source, without credentials; none before an embedded database has started.

    A digest, because a slip of the pen can make any part of a URL the password.
    """
    addresses = settings.upstream_urls
    if not addresses and settings.database_url is not None:
        addresses = _addresses_of(settings.database_url)
    return frozenset(sha256(each.encode()).hexdigest() for each in addresses)


def _addresses_of(url: DatabaseUrl) -> tuple[str, ...]:
    database = url.database or url.user
    return tuple(
        f"postgresql://{name if name.startswith('/') else name.lower()}:{port}/{database}" for name, port in url.hosts
    )


def _key_in(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            refuse_if_open(file, path, "state.hmac.key.file", "the key")
            key = file.read(MAX_KEY_BYTES + 2).removesuffix(b"\n").removesuffix(b"\r")
    except OSError as fault:
        raise UsageError(f"state.hmac.key.file: can't read `{path}` ({fault.strerror})") from None
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise UsageError(
            f"state.hmac.key.file: `{path}` holds {len(key)} bytes, and a key has {MIN_KEY_BYTES} to {MAX_KEY_BYTES}; "
            f"`openssl rand -hex 32` makes one"
        )
    return key
