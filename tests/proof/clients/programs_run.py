"""Running a user's program around a generated client, each language in its own way."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.clients.languages import typescript_modules

PROGRAMS = Path(__file__).with_name("programs")
PATIENCE_S = 300
_TSCONFIG = """{
  "compilerOptions": {
    "strict": true, "noUncheckedIndexedAccess": true, "exactOptionalPropertyTypes": true, "target": "ES2022",
    "lib": ["ES2022", "DOM", "DOM.Iterable"], "module": "NodeNext", "types": ["node"], "outDir": "out"
  },
  "include": ["*.ts"]
}"""


def said(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """What the program says; it must end well."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def python(client: Path, folder: Path, program: Path, *arguments: str) -> str:
    """Run it with the client's wheel: what is not in the wheel is not there."""
    (wheel,) = (client / "dist").glob("*.whl")
    return said([sys.executable, "-W", "error::DeprecationWarning", program, *arguments], folder, PYTHONPATH=str(wheel))


def java(client: Path, folder: Path, program: Path, *arguments: str) -> str:
    """Compile and run one file with the client's jar and what stands beside it."""
    (jar,) = (client / "target").glob("*.jar")
    path = f"{jar}{os.pathsep}{client / 'target' / 'lib'}{os.sep}*"
    return said(["java", "-Xmx256m", "-Xshare:auto", "--class-path", path, program, *arguments], folder)


def go(client: Path, folder: Path, program: Path, *arguments: str) -> str:
    """Run it as a module of its own, which takes the client from its folder. Nothing may be fetched for it."""
    shutil.copy(program, folder / "main.go")
    module = "klamm.example/clients/go"
    lines = ("module program", "go 1.23", f"require {module} v0.0.0", f"replace {module} => {client}")
    (folder / "go.mod").write_text("\n\n".join(lines) + "\n")
    offline = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOWORK": "off"}
    return said(["go", "run", ".", *arguments], folder, **offline)


def compiled_typescript(client: Path, folder: Path, programs: Path) -> Path:
    """The folder of what strict TypeScript makes of these programs, which import the client as an installed package."""
    tools = typescript_modules()
    modules = folder / "node_modules"
    modules.mkdir()
    (modules / "klamm-client").symlink_to(client)
    for types in ("@types", "undici-types"):
        (modules / types).symlink_to(tools / types)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(_TSCONFIG)
    for program in programs.glob("*.ts"):
        shutil.copy(program, folder)
    said(["node", tools / "typescript" / "bin" / "tsc", "--project", "."], folder)
    return folder / "out"
