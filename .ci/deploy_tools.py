"""The tools that look at deploy/ and .github/, each got once and kept in $XDG_CACHE_HOME/klamm, or ~/.cache/klamm."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[1]
LOCK = ROOT / ".ci" / "deploy-tools.lock"
ACTIONLINT = "v1.7.12"
GET_TIMEOUT_S = 600
RUN_TIMEOUT_S = 120


class NotToBeHad(Exception):
    """A tool can't be got here; the text says why, and what to do."""


def said(
    command: Sequence[str | Path],
    *,
    folder: Path = ROOT,
    timeout_s: float = RUN_TIMEOUT_S,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, str]:
    """Exit code of a command, and all that it has printed; `variables` are added to the environment."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    return done.returncode, done.stdout


def python_tools(lock: Path = LOCK) -> Path:
    """The folder of the packages of a lock in .ci, as a rule those that look at deploy/."""
    name = f"{lock.stem}-" + hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:16]

    def install(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "--only-binary", ":all:", "--target", str(folder), "--requirement", str(lock)]
        status, output = said(command, timeout_s=GET_TIMEOUT_S)
        if status:
            raise NotToBeHad(f"pip can't install .ci/{lock.name}: {_last_line(output)}")

    return _kept(name, install)


def promtool() -> Path:
    """The promtool of PATH, else the one of Debian's package `prometheus`, unpacked and not installed."""
    on_path = shutil.which("promtool")
    if on_path is not None:
        return Path(on_path)
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NotToBeHad("there is no promtool and no apt-get to get Debian's; install Prometheus")

    def unpack(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as here:
            package = _debian_package("prometheus", Path(here))
            status, output = said(["dpkg-deb", "--extract", str(package), str(folder)])
        if status:
            raise NotToBeHad(f"dpkg-deb can't unpack `prometheus`: {_last_line(output)}")

    return _kept("debian-prometheus", unpack) / "usr" / "bin" / "promtool"


def actionlint() -> Path:
    """The actionlint of PATH, else one that Go builds of the version named here; Go verifies its source."""
    on_path = shutil.which("actionlint")
    if on_path is not None:
        return Path(on_path)
    go = shutil.which("go")
    if go is None:
        raise NotToBeHad("there is no actionlint and no Go to build it; install one of them")

    def build(folder: Path) -> None:
        source = f"github.com/rhysd/actionlint/cmd/actionlint@{ACTIONLINT}"
        status, output = said([go, "install", source], timeout_s=GET_TIMEOUT_S, variables={"GOBIN": str(folder)})
        if status:
            raise NotToBeHad(f"Go can't build actionlint: {_last_line(output)}")

    return _kept(f"actionlint-{ACTIONLINT}", build) / "actionlint"


def _debian_package(name: str, folder: Path) -> Path:
    """The package's file. Lists of packages are fetched into the folder if the machine has none that do."""
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True)
    own = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={folder}", "-o", "APT::Sandbox::User=root"]
    output = ""
    for commands in ([["download", name]], [[*own, "update"], [*own, "download", name]]):
        for arguments in commands:
            _, output = said(["apt-get", "-qq", *arguments], folder=folder, timeout_s=GET_TIMEOUT_S)
        found = sorted(folder.glob(f"{name}_*.deb"))
        if found:
            return found[0]
    raise NotToBeHad(f"apt-get can't download Debian's package `{name}`: {_last_line(output)}")


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, made at once or not at all."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "klamm"
    folder = root / name
    if folder.is_dir():
        return folder
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=root, prefix=f".{name}-"))
    try:
        make(unfinished)
        unfinished.chmod(0o755)
        try:
            unfinished.rename(folder)
        except OSError:
            # Somebody else was faster.
            if not folder.is_dir():
                raise
    except subprocess.TimeoutExpired:
        raise NotToBeHad(f"it did not come within {GET_TIMEOUT_S} s") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or ["it said nothing"])[-1].strip()
