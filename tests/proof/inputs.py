"""What each file of the repository needs, read from its text: a graph whose edges lead from a file to its inputs.

A Python file needs the modules that it imports or names in a string, such as the module of a command, and the files and
folders that it names, but not what these need: it reads them as text. A test also needs the conftests above it, and
whoever starts `klamm` needs its entry point.
"""

import ast
import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

_NEAR, _FAR = 1, 4
"""How far an input is. Most tests use little of their conftests, so what comes through one is far away."""

_NOWHERE = 1_000_000

_PACKAGES = frozenset({"app", "tests", "migrations", "deploy", "examples"})

_FEW = 20
"""Whoever names a folder with more files, such as `app`, is about none of them in particular."""

_ENTRY_POINT = "app/cli/entry_point.py"
_BUILDS = frozenset(
    {"pom.xml", "Containerfile", "Chart.yaml", "compose.yaml", "kustomization.yaml", "package.json", "go.mod"}
)
"""Whoever names one of these files uses its whole folder."""


@dataclass(frozen=True, slots=True)
class Edges:
    """How far the direct inputs of a file are: modules that are loaded, and files that are read."""

    loaded: Mapping[str, int]
    read: Mapping[str, int]


class Inputs:
    """The graph of these files, which are named from the root; a file that is gone has no inputs, and may be one."""

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self._root = root
        self._files = frozenset(files)
        self._edges: dict[str, Edges] = {}

    @cached_property
    def _folders(self) -> Mapping[str, list[str]]:
        folders: defaultdict[str, list[str]] = defaultdict(list)
        for file in sorted(self._files):
            for parent in PurePosixPath(file).parents:
                if str(parent) != ".":
                    folders[str(parent)].append(file)
        return folders

    @cached_property
    def _modules(self) -> Mapping[str, str]:
        modules = {}
        for file in self._files:
            if file.endswith(".py"):
                name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                modules[name] = file
        return modules

    def edges(self, file: str) -> Edges:
        """The direct inputs of a file, and how far each is."""
        if file not in self._edges:
            self._edges[file] = self._read(file)
        return self._edges[file]

    def distances(self, file: str) -> dict[str, int]:
        """How far every direct and indirect input is; the file itself is at 0."""
        loaded: dict[str, int] = {}
        read: dict[str, int] = {}
        coming = [(0, file)]
        while coming:
            distance, nearest = heapq.heappop(coming)
            if nearest in loaded:
                continue
            loaded[nearest] = distance
            edges = self.edges(nearest)
            for each, step in edges.loaded.items():
                if each not in loaded:
                    heapq.heappush(coming, (distance + step, each))
            for each, step in edges.read.items():
                read[each] = min(distance + step, read.get(each, distance + step))
        return {each: min(where.get(each, _NOWHERE) for where in (loaded, read)) for each in {*loaded, *read}}

    def _read(self, file: str) -> Edges:
        path = self._root / file
        if not file.endswith(".py") or not path.is_file():
            return Edges({}, {})
        tree = ast.parse(path.read_bytes(), file)
        words = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        near = {*self._imported(file, tree), *self._modules_named(file, tree, words)}
        far = {*self._conftests(file)} - near
        loaded = {**dict.fromkeys(far, _FAR), **dict.fromkeys(near, _NEAR)}
        loaded.pop(file, None)
        read: dict[str, int] = {}
        for files in self._files_named(file, tree, words):
            step = _NEAR if len(files) <= _FEW else _FAR
            read.update((each, min(step, read.get(each, step))) for each in files if not _is_test(each))
        return Edges(loaded, read)

    def _conftests(self, file: str) -> Iterator[str]:
        if file.startswith("tests/"):
            for parent in PurePosixPath(file).parents:
                if f"{parent}/conftest.py" in self._files:
                    yield f"{parent}/conftest.py"

    def _imported(self, file: str, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._module(alias.name)
            elif isinstance(node, ast.ImportFrom):
                above = file.removesuffix(".py").split("/")[: -node.level] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                yield from self._module(base)
                for alias in node.names:
                    if f"{base}.{alias.name}" in self._modules:
                        yield from self._module(f"{base}.{alias.name}")

    def _module(self, name: str) -> Iterator[str]:
        """The module's file, and those of the packages around it, which are loaded as well."""
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            found = self._modules.get(".".join(parts[:length]))
            if found is not None:
                yield found

    def _modules_named(self, file: str, tree: ast.Module, words: Collection[str]) -> Iterator[str]:
        """Modules named by strings, perhaps with an attribute: "app.cli.serve", "app.runtime.pace._STEP_S"."""
        for word in words:
            if word.partition(".")[0] in _PACKAGES and " " not in word:
                yield from self._module(word.replace(":", "."))
        if file.startswith("tests/") and "klamm" in words and "subprocess" in _modules_of(tree):
            yield _ENTRY_POINT

    def _files_named(self, file: str, tree: ast.Module, words: Collection[str]) -> Iterator[list[str]]:
        """Files and folders named by strings, and by paths such as `ROOT / "docs" / "feed.md"`."""
        beside = PurePosixPath(file).parent
        for word in words:
            if "/" in word or "." in word or f"{beside}/{word}" in self._folders:
                yield from self._path(file, word)
        divisions = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)]
        begun = {node.left for node in divisions}
        for node in divisions:
            if node not in begun:
                yield from self._path(file, _joined(node))

    def _path(self, file: str, name: str) -> Iterator[list[str]]:
        """The file of this name, or all files of the folder, seen from the root or from the naming file's folder."""
        name = name.strip("/")
        if not name or name == ".":
            return
        beside = PurePosixPath(file).parent
        for path in (name, str(beside / name)):
            if path in self._files:
                yield [path]
                if PurePosixPath(path).name in _BUILDS:
                    yield self._folders[str(PurePosixPath(path).parent)]
            elif path in self._folders:
                yield self._folders[path]
        # A template or style sheet that a package loads by its name alone.
        if file.startswith("app/") and "/" not in name:
            yield [other for other in self._folders[str(beside)] if PurePosixPath(other).name == name]


def _joined(node: ast.expr) -> str:
    """The strings at the end of a path that is put together, but for one that is put together below a test's folder."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        above = _joined(node.left)
        if isinstance(node.right, ast.Constant) and isinstance(node.right.value, str) and above != "\0":
            return f"{above}/{node.right.value}".strip("/")
        return above
    return "\0" if isinstance(node, ast.Name) and "tmp" in node.id else ""


def _modules_of(tree: ast.Module) -> set[str]:
    return {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


def _is_test(file: str) -> bool:
    return PurePosixPath(file).name.startswith("test_")
