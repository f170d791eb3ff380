"""The file of callers' tokens, which holds their hashes only.

A line is `NAME sha256:HEX`; # begins a comment. A caller has two lines at most, so that it can change to a new token
while both are valid; the later line is the newer token.
"""

import fcntl
import hashlib
import os
import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from app.formats.command_errors import UsageError
from app.formats.secret_files import refuse_if_writable

MAX_BYTES = 1024 * 1024
MOST_LIVE = 2
_PREFIX = "klamm_"
_SECRET_BYTES = 32
_LINE = re.compile(r"(?P<name>\S+)\s+sha256:(?P<hash>[0-9a-f]{64})")


def hash_of(token: bytes) -> bytes:
    """Tokens are 256 random bits, so no slower hash is needed."""
    return hashlib.sha256(token).digest()


def read_tokens(path: Path, callers: Collection[str]) -> Mapping[bytes, str]:
    """Callers by the hashes of their tokens. Raises UsageError."""
    return {entry.hash: entry.name for entry in _parsed(path, _text_of(path).splitlines(), callers)}


def add_token(path: Path, name: str, callers: Collection[str]) -> str:
    """Makes a token for a caller, and writes its hash; only this call ever returns the token itself.

    `callers` are the names that the file may hold. Raises UsageError; then nothing was written.
    """
    with _locked(path, callers) as (lines, entries):
        if len(_of(name, entries)) >= MOST_LIVE:
            raise UsageError(f"`{name}` has {MOST_LIVE} live tokens already; remove the older one first, with --retire")
        token = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        lines.append(f"{name} sha256:{hash_of(token.encode()).hex()}")
    return token


def retire_tokens(path: Path, name: str, callers: Collection[str]) -> int:
    """Removes all but a caller's newest token; returns how many. Otherwise as `add_token`."""
    with _locked(path, callers) as (lines, entries):
        old = _of(name, entries)[:-1]
        for entry in reversed(old):
            del lines[entry.number - 1]
    return len(old)


class _Entry(NamedTuple):
    number: int
    name: str
    hash: bytes


def _parsed(path: Path, lines: Sequence[str], callers: Collection[str]) -> list[_Entry]:
    # INVARIANT: one bad line refuses the whole file, as it may be the one that replaces an earlier line's token.
    found: list[_Entry] = []
    hashes: set[str] = set()
    live = Counter[str]()
    for number, line in enumerate(lines, 1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        fields = _LINE.fullmatch(content)
        why = None
        if fields is None:
            why = "expected `NAME sha256:` and 64 digits of a-f and 0-9, as `klamm token` writes them"
        elif fields["name"] not in callers:
            why = f"there is no table `callers.{fields['name'][:70]}` in klamm.toml"
        elif fields["hash"] in hashes:
            why = "the same token is already in an earlier line"
        elif live[fields["name"]] >= MOST_LIVE:
            why = f"`{fields['name']}` has {MOST_LIVE} live tokens in earlier lines already; remove one"
        if why is not None or fields is None:
            raise UsageError(f"`{path}` line {number}: {why}")
        hashes.add(fields["hash"])
        live[fields["name"]] += 1
        found.append(_Entry(number, fields["name"], bytes.fromhex(fields["hash"])))
    return found


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            refuse_if_writable(file, path)
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise UsageError(f"`{path}` is larger than {MAX_BYTES} bytes")
        return content.decode()
    except FileNotFoundError:
        raise UsageError(
            f"`{path}`, which `tokens.file` names, does not exist; create it with `klamm token NAME` (an empty file is "
            "enough)"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"`{path}` can't be read ({why}); `tokens.file` names it") from None


def _of(name: str, entries: Sequence[_Entry]) -> list[_Entry]:
    return [entry for entry in entries if entry.name == name]


@contextmanager
def _locked(path: Path, callers: Collection[str]) -> Iterator[tuple[list[str], list[_Entry]]]:
    """The file's lines, to change, and their entries. The file is replaced as a whole; a link to it stays a link."""
    target = Path(os.path.realpath(path))
    try:
        # The folder is locked, as each change replaces the file.
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            # If two commands change the file at once, one of them fails.
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lines = _text_of(path).splitlines() if target.exists() else []
            yield lines, _parsed(path, lines, callers)
            _replace(target, "".join(f"{line}\n" for line in lines))
        finally:
            os.close(folder)
    except FileNotFoundError:
        raise UsageError(f"`{path}` can't be written; create its folder first: `{target.parent}`") from None
    except OSError as error:
        raise UsageError(f"`{path}` can't be written ({error.strerror})") from None


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    beside.replace(path)
