"""An issuer's keys: read in the background, and once more when a token names an unknown key.

They come from a file, or from an HTTPS URL that the operator has configured.
"""

import asyncio
import logging
import random
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from app.core.backoff import Backoff
from app.core.kafka.hosts import is_loopback
from app.rest.callers.signing_keys import KeySetError, PublicKey, SigningKeys, read_key_set
from app.runtime.deadlines import stop

MAX_BYTES = 256 * 1024
_FETCH_S = 3.0
# kube-apiserver serves the first only (406 otherwise), most others the second.
_ACCEPTED = "application/jwk-set+json, application/json;q=0.9"
_BEARER = re.compile(r"[!-~]{1,16384}+")


class KeySource(Protocol):
    """Where keys come from, and how often they may be read there."""

    name: str
    """For the log; nothing in it is secret."""
    files: Mapping[str, str]
    """For the log: other files that are needed, by their names in klamm.toml."""
    each_s: float
    """Between two reads."""
    first_rest_s: float
    longest_rest_s: float
    """Between two reads after failures."""
    spacing_s: float
    """The least time between two reads for tokens with unknown keys."""

    async def read(self) -> SigningKeys | None:
        """None: the same as last time. Raises KeySetError."""


def key_source(source: str, ca_file: Path | None = None, bearer_file: Path | None = None) -> KeySource:
    """`source` is a path or URL. Raises ValueError for a URL that keys must not come from."""
    if "://" not in source:
        return FileSource(Path(source))
    parts = urlsplit(source)
    loopback = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if not parts.hostname or not (parts.scheme == "https" or loopback):
        raise ValueError("keys must come from a file or an https URL; http is allowed for loopback only")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL of the keys contains a user name or a password; put a token in `bearer_file` instead")
    return UrlSource(source, ca_file, bearer_file)


class FileSource:
    each_s = 1.0
    first_rest_s = 1.0
    longest_rest_s = 1.0
    spacing_s = 0.1

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.files: Mapping[str, str] = {}
        self._path = path
        self._document: bytes | None = None
        """The last one that held keys."""

    async def read(self) -> SigningKeys | None:
        return await asyncio.to_thread(self._read)

    def _read(self) -> SigningKeys | None:
        document = content_of(self._path)
        if document == self._document:
            return None
        keys = read_key_set(document)
        self._document = document
        return keys


class UrlSource:
    """Its answers are bounded in time and size, and redirects are not followed."""

    each_s = 300.0
    first_rest_s = 1.0
    longest_rest_s = 60.0
    spacing_s = 10.0

    def __init__(self, url: str, ca_file: Path | None, bearer_file: Path | None) -> None:
        self.name = url.partition("?")[0]
        files = {"ca_file": ca_file, "bearer_file": bearer_file}
        self.files: Mapping[str, str] = {name: str(path) for name, path in files.items() if path is not None}
        self._url = url
        self._ca_file = ca_file
        self._bearer_file = bearer_file

    async def read(self) -> SigningKeys:
        try:
            async with asyncio.timeout(_FETCH_S):
                document = await self._fetch()
        except TimeoutError:
            raise KeySetError(f"it did not answer within {_FETCH_S:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise KeySetError(f"it can't be reached ({error or type(error).__name__})") from None
        return await asyncio.to_thread(read_key_set, document)

    async def _fetch(self) -> bytes:
        # The files are read each time, as a cluster changes its authorities and tokens.
        headers, trust = await asyncio.to_thread(self._credentials)
        async with (
            # INVARIANT: only klamm.toml says where keys come from: no redirects, no proxies from the environment.
            httpx.AsyncClient(verify=trust, follow_redirects=False, trust_env=False, timeout=_FETCH_S) as client,
            client.stream("GET", self._url, headers=headers) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                raise KeySetError(f"it answered with status {answer.status_code}")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise KeySetError("it sent a compressed answer, which was not requested")
            document = bytearray()
            async for part in answer.aiter_raw():
                document += part
                if len(document) > MAX_BYTES:
                    raise KeySetError(f"it answered with more than {MAX_BYTES} bytes")
            return bytes(document)

    def _credentials(self) -> tuple[dict[str, str], ssl.SSLContext]:
        headers = {"accept": _ACCEPTED, "accept-encoding": "identity"}
        if self._bearer_file is not None:
            bearer = content_of(self._bearer_file).decode(errors="replace").strip()
            # A header with a line break would show up in the text of an error.
            if not _BEARER.fullmatch(bearer):
                raise KeySetError(f"`{self._bearer_file}` contains no bearer token")
            headers["authorization"] = f"Bearer {bearer}"
        try:
            # Without a file: the authorities that the system trusts.
            return headers, ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:  # ssl.SSLError is one, too
            raise KeySetError(f"`{self._ca_file}` contains no readable certificates ({_why(error)})") from None


def content_of(path: Path) -> bytes:
    """Raises KeySetError if the file can't be read or is too large."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise KeySetError(f"`{path}` can't be read ({_why(error)})") from None
    if len(content) > MAX_BYTES:
        raise KeySetError(f"`{path}` has more than {MAX_BYTES} bytes")
    return content


def _why(error: OSError) -> str:
    return error.strerror or str(error)


_SHORT_WAIT_S = 1.0
"""If the next read is allowed later than this, a token with an unknown key doesn't wait for it."""
_LONGEST_WAIT_S = 4.0
_MOST_WAITING = 1_000
_SAY_AGAIN_S = 60.0

_log = logging.getLogger(__name__)


class KeySet:
    """The public keys of one issuer. If they can't be read, the last ones stay in use; at first there are none."""

    def __init__(
        self,
        source: str | KeySource,
        *,
        ca_file: Path | None = None,
        bearer_file: Path | None = None,
    ) -> None:
        """`source` is as for `key_source`."""
        self.generation = 0
        self.was_read = False
        self._source = key_source(source, ca_file, bearer_file) if isinstance(source, str) else source
        self._backoff = Backoff(self._source.first_rest_s, self._source.longest_rest_s, random.uniform)
        self._keys = SigningKeys()
        self._look: asyncio.Task[None] | None = None
        self._look_began_at = float("-inf")
        self._allowed_at = float("-inf")
        self._failing = False
        self._said: tuple[str, float] = ("", float("-inf"))
        self._waiting = 0
        self._following: asyncio.Task[None] | None = None

    def key(self, kid: str | None, algorithm: str) -> PublicKey | None:
        return self._keys.find(kid, algorithm)

    def knows(self, kid: str | None) -> bool:
        return self._keys.knows(kid)

    def open(self) -> None:
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        for task in (self._following, self._look):
            if task is not None:
                await stop(task)

    async def refresh(self) -> None:
        """Read the keys, or wait for the read under way. A failure is logged, and the keys stay as they are."""
        loop = asyncio.get_running_loop()
        if self._look is None or not self._is_looking():
            self._look_began_at = loop.time()
            self._look = loop.create_task(self._read())
        # Cancelling one waiter must not cancel the read.
        await asyncio.wait({self._look})

    def _is_looking(self) -> bool:
        return self._look is not None and not self._look.done()

    async def look_again(self) -> None:
        """Refresh for a token with an unknown key.

        Calls at the same time share one read; a call too soon after the last one returns at once.
        """
        if self._waiting >= _MOST_WAITING:
            return
        self._waiting += 1
        try:
            async with asyncio.timeout(_LONGEST_WAIT_S):
                await self._look_since(asyncio.get_running_loop().time())
        except TimeoutError:
            return
        finally:
            self._waiting -= 1

    async def _look_since(self, asked_at: float) -> None:
        """Return after a read that began no earlier than this, as an earlier one may have missed the new key."""
        loop = asyncio.get_running_loop()
        while self._is_looking() or self._look_began_at < asked_at:
            if not self._is_looking():
                rest_s = self._allowed_at - loop.time()
                if rest_s > _SHORT_WAIT_S:
                    return
                if rest_s > 0:
                    await asyncio.sleep(rest_s)
                    continue
                self._allowed_at = loop.time() + self._source.spacing_s
            await self.refresh()

    async def _follow(self) -> None:
        while True:
            await self.refresh()
            if self._failing:
                await asyncio.sleep(self._backoff.next_s())
            else:
                self._backoff.reset()
                each_s = self._source.each_s
                await asyncio.sleep(random.uniform(0.9 * each_s, each_s))  # noqa: S311 - a rest, no secret

    async def _read(self) -> None:
        try:
            keys = await self._source.read()
        except KeySetError as error:
            self._fail(str(error))
        except Exception as fault:  # noqa: BLE001 - an unexpected fault must not end the reading
            _log.exception("key_set_fault", extra={"source": self._source.name})
            self._fail(type(fault).__name__)
        else:
            self._failing = False
            self._said = ("", float("-inf"))
            if keys is not None:
                self._take(keys)

    def _fail(self, why: str) -> None:
        self._failing = True
        now = asyncio.get_running_loop().time()
        if self._said[0] == why and now < self._said[1] + _SAY_AGAIN_S:
            return
        self._said = (why, now)
        extra = {"source": self._source.name, "why": why, **self._source.files}
        if self.was_read:
            _log.warning("key_set_not_refreshed", extra=extra)
        else:
            # No token of this issuer is accepted until it is read.
            _log.error("key_set_never_read", extra=extra)

    def _take(self, keys: SigningKeys) -> None:
        if self.was_read and keys == self._keys:
            return
        self._keys, self.was_read = keys, True
        self.generation += 1
        extra: dict[str, object] = {"source": self._source.name, "keys": len(keys.keys)}
        if keys.ignored:
            extra["ignored"] = ",".join(f"{why}:{count}" for why, count in sorted(keys.ignored.items()))
        # A set without keys is accepted: that is how an issuer revokes everything it has signed.
        _log.log(logging.INFO if keys.keys else logging.WARNING, "key_set_read", extra=extra)
