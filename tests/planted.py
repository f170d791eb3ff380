"""Planted secrets: what every process of the whole run has said is kept, and none of it may show one.

A test that gives a process a secret plants it (`plant`); whoever starts a process hands in what it says (`hear`).
When the run ends, `tests/conftest.py` holds the one against the other, also for secrets that were planted late.
"""

import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
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
            self._said.writelines(f"{test}\0{line}\n" for line in said.split("\n") if line)

    def hand_over(self, path: Path) -> dict[str, str]:
        """Put what was said into this file; the secrets come back, by the test that planted each."""
        with self._lock:
            self._said.flush()
            self._said.seek(0)
            path.write_text(self._said.read(), encoding="utf-8", errors="surrogatepass")
            return dict(self._secrets)

    def take_over(self, path: Path, secrets: Mapping[str, str]) -> None:
        """Keep what another process of the run has handed over."""
        with self._lock:
            self._secrets.update(secrets)
            self._said.write(path.read_text(encoding="utf-8", errors="surrogatepass"))

    def leaks(self) -> Iterator[str]:
        """For each line with a secret: where it was planted and said, without telling more of it than needs be."""
        with self._lock:
            self._said.flush()
            self._said.seek(0)
            for kept in self._said:
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


def gather(node: Any) -> None:  # noqa: ANN401 - a worker of pytest-xdist
    """Take over what a worker of the run has heard, in the process that judges."""
    handed_over = getattr(node, "workeroutput", {}).get("planted")
    if handed_over is not None:
        path = Path(handed_over["said"])
        _RUN.take_over(path, handed_over["secrets"])
        path.unlink()


def judge(session: pytest.Session) -> None:
    """Fail the run, whatever else it has shown, if any process has said a planted secret.

    A worker of pytest-xdist does not judge: a secret of its own may have been said to another one.
    """
    if hasattr(session.config, "workeroutput"):
        said = Path(tempfile.mkstemp(prefix="klamm-said-")[1])
        session.config.workeroutput["planted"] = {"said": str(said), "secrets": _RUN.hand_over(said)}
        return
    leaks = list(_RUN.leaks())
    if not leaks:
        return
    session.exitstatus = pytest.ExitCode.TESTS_FAILED
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.section("planted secrets were found in what processes said", sep="=", red=True, bold=True)
        for leak in leaks[:20]:
            reporter.write_line(leak)
        reporter.write_line(f"{len(leaks)} in all; no log, message or traceback may show a secret (app/logs/redaction)")
