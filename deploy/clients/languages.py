"""The recipes: how each language's client is generated and built, and with which tools."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.clients.kept import cache, fingerprint, kept, locked
from deploy.clients.tools import BuildError, at_least, run, tool

HERE = Path(__file__).parent
GENERATOR = "org.openapitools:openapi-generator-cli:7.25.0"
GENERATOR_SHA256 = "41ce4f6b07f196676439d710759fa1ced7a08066d06ff1bf314681470289efae"
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
ANY_VERSION = "0.0.0-openapi"
"""What stands in our templates where the document's version belongs."""

_JAVA = "install a JDK, 11 or newer (such as the package openjdk-17-jdk), and put its bin on PATH"
_MAVEN = "install Maven 3.6 or newer (the package maven): it fetches the generator, and what the Java client needs"
_GO = "install Go 1.23 or newer"
_NODE = "install Node.js 20 or newer, which brings npm"
_UV = "run `make setup`, which puts it into .venv"


@dataclass(frozen=True, slots=True)
class Tools:
    """The commands by name, and the versions on which the result depends."""

    commands: dict[str, str]
    versions: tuple[str, ...]

    def __getitem__(self, name: str) -> str:
        return self.commands[name]


@dataclass(frozen=True, slots=True)
class Recipe:
    """`tools` raises ToolMissingError; `build` fills an empty folder or raises BuildError."""

    tools: Callable[[], Tools]
    build: Callable[[Tools, Path, Path], None]


def _python_tools() -> Tools:
    uv = tool("uv", _UV, beside=Path(sys.executable).parent)
    return Tools({"uv": uv}, (f"python {sys.version_info.major}.{sys.version_info.minor}",))


def _python(tools: Tools, document: Path, folder: Path) -> None:
    own = HERE / "python"
    lock = own / "requirements.lock"
    environment = kept("python-tools", fingerprint([lock], [sys.version]), lambda made: _environment(tools, lock, made))
    binaries = environment / "bin"
    work = folder / "klamm"
    command: list[str | Path] = [binaries / "openapi-python-client", "generate", "--path", document, "--meta", "setup"]
    # It formats what it wrote with the ruff that it finds.
    path = {"PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}", "RUFF_NO_CACHE": "true"}
    ours: list[str | Path] = ["--config", own / "generator.json", "--custom-template-path", own / "templates"]
    run([*command, *ours, "--output-path", work, "--fail-on-warning"], folder, path)
    _own_files("python", document, work, "README.md")
    run([tools["uv"], "build", "--wheel", "--no-build-isolation", "--python", binaries / "python"], work, path)
    for part in work.iterdir():
        if part.name != "build" and part.suffix != ".egg-info":
            part.rename(folder / part.name)
    shutil.rmtree(work)


def _environment(tools: Tools, lock: Path, folder: Path) -> None:
    run([tools["uv"], "venv", "--quiet", "--relocatable", "--python", sys.executable, "--clear", folder], folder.parent)
    run([tools["uv"], "pip", "install", "--quiet", "--python", folder, "--require-hashes", "-r", lock], folder.parent)


def _java_tools() -> Tools:
    commands = {name: tool(name, _JAVA) for name in ("java", "javac")}
    commands["mvn"] = tool("mvn", _MAVEN)
    version = at_least([commands["javac"], "-version"], 11, _JAVA)
    return Tools(commands, (f"javac {version}",))


def _java(tools: Tools, document: Path, folder: Path) -> None:
    _openapi_generator(tools, "java", document, folder)
    _own_files("java", document, folder, "pom.xml", "README.md")
    # INVARIANT: one Maven at a time writes into its repository; it does not lock it itself.
    with locked("maven"):
        run([*_maven(tools), "package"], folder)
    for part in ("maven-status", "maven-archiver", "generated-sources"):
        shutil.rmtree(folder / "target" / part, ignore_errors=True)


def _go_tools() -> Tools:
    commands = {"go": tool("go", _GO), "java": tool("java", _JAVA), "mvn": tool("mvn", _MAVEN)}
    at_least([commands["java"], "-version"], 11, _JAVA)
    version = at_least([commands["go"], "version"], 1, _GO)
    return Tools(commands, (f"go {version}",))


def _go(tools: Tools, document: Path, folder: Path) -> None:
    _openapi_generator(tools, "go", document, folder)
    _own_files("go", document, folder, "README.md")
    environment = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "GOWORK": "off"}
    for step in (["build", "./..."], ["vet", "./..."]):
        run([tools["go"], *step], folder, environment)


def _typescript_tools() -> Tools:
    commands = {"node": tool("node", _NODE), "npm": tool("npm", _NODE)}
    version = at_least([commands["node"], "--version"], 20, _NODE)
    return Tools(commands, (f"node {version.partition('.')[0]}",))


def typescript_modules() -> Path:
    """The node_modules with what TypeScript clients are made with, tsc too. Raises ToolMissingError and BuildError."""
    return _typescript_workshop(_typescript_tools()) / "node_modules"


def _typescript_workshop(tools: Tools) -> Path:
    files = [HERE / "typescript" / name for name in ("package.json", "package-lock.json", "generate.mjs")]

    def fill(folder: Path) -> None:
        for file in files:
            shutil.copy(file, folder)
        run(_npm_ci(tools), folder)

    return kept("typescript-tools", fingerprint(files, tools.versions), fill)


def _typescript(tools: Tools, document: Path, folder: Path) -> None:
    workshop = _typescript_workshop(tools)
    _own_files("typescript", document, folder, "package.json", "package-lock.json", "README.md", "tsconfig.json")
    shutil.copytree(HERE / "typescript" / "src", folder / "src")
    run([*_npm_ci(tools), "--omit=dev"], folder)
    run([tools["node"], workshop / "generate.mjs", document, folder / "src" / "schema.ts"], folder)
    run([tools["node"], workshop / "node_modules" / "typescript" / "bin" / "tsc", "--project", "."], folder)


def _npm_ci(tools: Tools) -> list[str]:
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    return [tools["npm"], "ci", "--ignore-scripts", "--prefer-offline", *quiet, f"--cache={cache('npm')}"]


def _openapi_generator(tools: Tools, language: str, document: Path, folder: Path) -> None:
    jar = _generator_jar(tools)
    own = HERE / language
    ignored = own / "ignored-files"
    if ignored.exists():
        shutil.copy(ignored, folder / ".openapi-generator-ignore")
    command: list[str | Path] = [tools["java"], "-Xmx512m", "-jar", jar, "generate", "--generator-name", language]
    run([*command, "--input-spec", document, "--config", own / "generator.json", "--output", folder], folder)


def _generator_jar(tools: Tools) -> Path:
    group, artifact, version = GENERATOR.split(":")
    name = f"{artifact}-{version}.jar"

    def fetch(folder: Path) -> None:
        with locked("maven"):
            run(
                [*_maven(tools), COPY_GOAL, f"-Dartifact={group}:{artifact}:{version}", f"-DoutputDirectory={folder}"],
                folder,
            )
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        # INVARIANT: a jar with another checksum is never run.
        if found != GENERATOR_SHA256:
            raise BuildError(f"{GENERATOR} has the checksum {found}, which is not the expected one; nothing was run")

    return kept("openapi-generator", fingerprint([], [GENERATOR, GENERATOR_SHA256]), fetch) / name


def _maven(tools: Tools) -> list[str]:
    return [tools["mvn"], "--batch-mode", "--quiet", "--no-transfer-progress", f"-Dmaven.repo.local={cache('maven')}"]


def _own_files(language: str, document: Path, folder: Path, *names: str) -> None:
    """Our templates, with the document's version."""
    version = json.loads(document.read_text(encoding="utf-8"))["info"]["version"]
    for name in names:
        text = (HERE / language / name).read_text(encoding="utf-8")
        (folder / name).write_text(text.replace(ANY_VERSION, version), encoding="utf-8")


LANGUAGES = {
    "python": Recipe(_python_tools, _python),
    "java": Recipe(_java_tools, _java),
    "go": Recipe(_go_tools, _go),
    "typescript": Recipe(_typescript_tools, _typescript),
}
