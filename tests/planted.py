"""Planted secrets: what every process of the run has said is kept, and none of it may show one.

A test that gives a process a secret plants it (`plant`); whoever starts a process hands in what it says (`hear`).
When a test has ended, `tests/conftest.py` fails it if a secret has been said meanwhile. The last test of each worker
ends with its processes, and then all that they have ever said is judged, also by secrets that were planted late.
"""

import os
import re
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest

SHORTEST = 8
"""A secret of less is part of ordinary words, and would be found everywhere."""

_WIDTH = 200
_JWT = re.compile(r"eyJ[\w-]{10,}\.eyJ[\w-]{4,}(\.[\w-]*)?", re.ASCII)
"""JWTs need not be planted one by one: no line may show any."""


class PlantedSecrets:
    """Secrets, and a file of what was said; both from any thread."""

    def __init__(self) -> None:
        self._secrets: dict[str, str] = {}
        # Closed by `close`.
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115 - as said
        self._judged = 0
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the file."""
        self._said.close()

    def plant(self, secret: str) -> None:
        """From now on, and before now, nobody may have said this, as it is or as URLs quote it."""
        if len(secret) < SHORTEST:
            raise ValueError(f"a planted secret needs {SHORTEST} characters, or ordinary words have it in them")
        with self._lock:
            for spelling in {secret, quote(secret, safe=""), unquote(secret)}:
                self._secrets.setdefault(spelling, _test())

    def hear(self, said: str) -> None:
        """Keep what a process has said, with the test that was running."""
        test = _test()
        with self._lock:
            self._said.seek(0, os.SEEK_END)
            self._said.writelines(f"{test}\0{line}\n" for line in said.split("\n") if line)

    def leaks(self, *, everything: bool) -> list[str]:
        """For each line with a secret: where it was planted and said, without telling more of it than needs be.

        Lines that were looked at before are looked at again only if all are asked for; no leak is told twice.
        """
        with self._lock:
            self._said.seek(0 if everything else self._judged)
            found = list(dict.fromkeys(leak for line in self._said for leak in self._leaks_in(line)))
            self._judged = self._said.tell()
            new = [leak for leak in found if leak not in self._told]
            self._told.update(new)
            return new

    def _leaks_in(self, kept: str) -> Iterator[str]:
        test, _, line = kept.rstrip("\n").partition("\0")
        for secret, origin in self._secrets_in(line):
            at = line.find(secret)
            shown = line[max(0, at - _WIDTH) : at] + "<<<the secret>>>" + line[at + len(secret) :][:_WIDTH]
            yield f"{origin} was said in {test}: {shown}"

    def _secrets_in(self, line: str) -> Iterator[tuple[str, str]]:
        for secret, planted_by in self._secrets.items():
            if secret in line:
                yield secret, f"a secret planted in {planted_by}"
        found = _JWT.search(line)
        if found is not None:
            yield found[0], "a JWT"


def _test() -> str:
    return os.environ.get("PYTEST_CURRENT_TEST", "no test").partition(" ")[0]


_RUN = PlantedSecrets()
hear = _RUN.hear


def plant(secret: str) -> str:
    """Plant this secret for the whole run; it comes back, to be handed to the process."""
    _RUN.plant(secret)
    return secret


def plant_password(url: str) -> str:
    """Plant the password of this URL, if it has one worth the name; the URL comes back."""
    password = urlsplit(url).password
    if password is not None and len(password) >= SHORTEST:
        plant(password)
    return url


def plant_of_folder(data_dir: Path) -> None:
    """Plant the password of the embedded PostgreSQL in this folder, if there is one."""
    path = data_dir / "password"
    if path.exists():
        plant(path.read_text(encoding="ascii").strip())


def judge(*, everything: bool) -> None:
    """Fail the test that has just ended, whatever else it has shown, if a planted secret has been said."""
    leaks = _RUN.leaks(everything=everything)
    if leaks:
        told = [
            *leaks[:20],
            f"{len(leaks)} in all; no log, message or traceback may show a secret (app/logs/redaction)",
        ]
        pytest.fail("\n".join(["planted secrets were found in what processes said", *told]), pytrace=False)
