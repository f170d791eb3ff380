"""Where an issuer's keys come from: a file, or an HTTPS URL that the operator has configured."""

import asyncio
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from app.core.kafka.hosts import is_loopback
from app.rest.callers.signing_keys import KeySetError, SigningKeys, read_key_set

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
        raise ValueError("keys come from an https URL or a file; http is for loopback only")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL of the keys holds a user name or a password; put a token into `bearer_file` instead")
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
        document = content_of(self._path, MAX_BYTES)
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
        # Files are read each time, as a cluster changes its authorities and tokens.
        headers, trust = await asyncio.to_thread(self._credentials)
        async with (
            # INVARIANT: only klamm.toml says where keys come from: no redirects, no proxies of the environment.
            httpx.AsyncClient(verify=trust, follow_redirects=False, trust_env=False, timeout=_FETCH_S) as client,
            client.stream("GET", self._url, headers=headers) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                raise KeySetError(f"it answered with status {answer.status_code}")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise KeySetError("it answered in a compressed form, which was not asked for")
            document = bytearray()
            async for part in answer.aiter_raw():
                document += part
                if len(document) > MAX_BYTES:
                    raise KeySetError(f"it answered with more than {MAX_BYTES} bytes")
            return bytes(document)

    def _credentials(self) -> tuple[dict[str, str], ssl.SSLContext]:
        headers = {"accept": _ACCEPTED, "accept-encoding": "identity"}
        if self._bearer_file is not None:
            bearer = content_of(self._bearer_file, MAX_BYTES).decode(errors="replace").strip()
            # A header with a line break would show up in the text of an error.
            if not _BEARER.fullmatch(bearer):
                raise KeySetError(f"`{self._bearer_file}` holds no bearer token")
            headers["authorization"] = f"Bearer {bearer}"
        try:
            # Without a file: the authorities that the system trusts.
            return headers, ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:  # ssl.SSLError is one, too
            raise KeySetError(f"`{self._ca_file}` holds no certificates that can be read ({_why(error)})") from None


def content_of(path: Path, max_bytes: int) -> bytes:
    """Raises KeySetError if the file can't be read or is too large."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise KeySetError(f"`{path}` can't be read ({_why(error)})") from None
    if len(content) > max_bytes:
        raise KeySetError(f"`{path}` has more than {max_bytes} bytes")
    return content


def _why(error: OSError) -> str:
    return error.strerror or str(error)
