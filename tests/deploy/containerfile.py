"""deploy/Containerfile, taken apart: stages and instructions; and a replay of a stage in folders of this machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.deploy.manifests import DEPLOY, ROOT

TEXT = (DEPLOY / "Containerfile").read_text()
_FROM = re.compile(r"(?P<image>\S+)(?: AS (?P<name>\S+))?")


class Instruction(NamedTuple):
    """One line, continuations joined: COPY, and what follows."""

    word: str
    rest: str


class Stage(NamedTuple):
    """What stands between two FROMs."""

    name: str
    image: str
    instructions: tuple[Instruction, ...]

    def of(self, word: str) -> list[str]:
        return [each.rest for each in self.instructions if each.word == word]


def instructions() -> list[Instruction]:
    lines = "\n".join(line for line in TEXT.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    found = [line.strip().partition(" ") for line in lines.splitlines() if line.strip()]
    return [Instruction(word, re.sub(r"\s+", " ", rest.strip())) for word, _, rest in found]


def stages() -> dict[str, Stage]:
    found: dict[str, Stage] = {}
    current: list[Instruction] = []
    head: re.Match[str] | None = None
    for each in [*instructions(), Instruction("FROM", "end")]:
        if each.word != "FROM":
            current.append(each)
            continue
        if head is not None:
            found[head["name"]] = Stage(head["name"], head["image"], tuple(current))
        head, current = _FROM.fullmatch(each.rest), []
    return found


def copies(stage: Stage) -> list[tuple[str | None, list[str], str]]:
    """Of each COPY the stage that it copies from (None: the repository), the sources and the destination."""
    found = []
    for rest in stage.of("COPY"):
        words = rest.split()
        origin = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
        found.append((origin, words[:-1], words[-1]))
    return found


def replay(name: str, folder: Path, path: str) -> None:
    """Do what a stage does, with `folder` for the root. `path` is PATH, with the base's Python first."""
    stage, work = stages()[name], folder / "src"
    work.mkdir(exist_ok=True)
    for origin, sources, destination in copies(stage):
        if origin is None:
            for source in sources:
                target = work / destination / (Path(source).name if destination.endswith("/") else "")
                _copy(ROOT / source, target)
    for script in stage.of("RUN"):
        for at in ("/opt", "/dist", "/src"):
            script = re.sub(rf"(?<![\w.}}]){at}(?=[/ ]|$)", f"{folder}{at}", script)  # noqa: PLW2901 - step by step
        _run(script, work, {"PATH": path, "HOME": os.environ.get("HOME", "/"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"})


def _run(script: str, folder: Path, environment: Mapping[str, str]) -> None:
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP", "NO_PROXY"))}
    done = subprocess.run(
        ["/bin/sh", "-ec", script],
        cwd=folder,
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
