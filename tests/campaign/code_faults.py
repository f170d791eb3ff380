"""Small faults of code that a seed draws: a comparison, a bound, a branch or an argument is another one."""

import ast
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[str, str, str]]] = {
    ast.Lt: ("<", r"<(?!=)", "<="),
    ast.LtE: ("<=", r"<=", "<"),
    ast.Gt: (">", r">(?!=)", ">="),
    ast.GtE: (">=", r">=", ">"),
    ast.Eq: ("==", r"==", "!="),
    ast.NotEq: ("!=", r"!=", "=="),
    ast.In: ("in", r"\bin\b", "not in"),
    ast.NotIn: ("not in", r"\bnot\s+in\b", "in"),
    ast.Is: ("is", r"\bis\b", "is not"),
    ast.IsNot: ("is not", r"\bis\s+not\b", "is"),
}
_BOUNDING_CALLS = frozenset({"min", "max", "range", "islice", "round"})
_LOGGING_CALLS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})


@dataclass(frozen=True, slots=True, order=True)
class CodeFault:
    """Bytes of a file that are replaced; line and column are those of an editor, from 1."""

    path: str
    line: int
    column: int
    kind: str
    start: int
    before: bytes
    after: bytes

    @property
    def name(self) -> str:
        """What names the fault in a call, as long as the file stays as it is."""
        place = f"{self.path}:{self.line}:{self.column}:{self.kind}"
        # A branch may be changed in several ways.
        return f"{place}:{self.after.split()[0].decode()}" if self.kind == "branch" else place

    @property
    def change(self) -> str:
        """What is changed, in a line."""
        before, after = (" ".join(text.decode().split()) for text in (self.before, self.after))
        return f"{before} -> {after}"

    def apply(self, source: bytes) -> bytes:
        """The file with the fault. Raises ValueError if it is another file by now."""
        end = self.start + len(self.before)
        if source[self.start : end] != self.before:
            raise ValueError(f"{self.path} has changed since its faults were drawn")
        return source[: self.start] + self.after + source[end:]


class _Finder:
    """Finds what can be changed in one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path, self._source = path, source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def all(self) -> list[CodeFault]:
        return sorted({fault for node in _deciding(ast.parse(self._source)) for fault in self._of(node)})

    def _of(self, node: ast.AST) -> Iterator[CodeFault]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._comparison(node)
        yield from self._bounds(node)
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            for after in ("False", "True", f"not ({self._text(node.test).decode()})"):
                yield self._replaced("branch", node.test, after)
        if isinstance(node, ast.BoolOp):
            yield from self._connective(node)
        if isinstance(node, ast.Call):
            yield from self._arguments(node)

    def _comparison(self, node: ast.Compare) -> Iterator[CodeFault]:
        _, pattern, after = _COMPARISONS[type(node.ops[0])]
        start, end = self._end(node.left), self._start(node.comparators[0])
        yield from self._between("comparison", start, end, pattern, after)

    def _connective(self, node: ast.BoolOp) -> Iterator[CodeFault]:
        word, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        start, end = self._end(node.values[0]), self._start(node.values[1])
        yield from self._between("branch", start, end, rf"\b{word}\b", after)

    def _bounds(self, node: ast.AST) -> Iterator[CodeFault]:
        """Whole numbers that are compared, added, cut off at, or have a name in capital letters."""
        parts: Sequence[ast.AST | None] = ()
        if isinstance(node, ast.Compare):
            parts = (node.left, *node.comparators)
        elif isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Mod):
            parts = (node.left, node.right)
        elif isinstance(node, ast.Slice):
            parts = (node.lower, node.upper)
        elif isinstance(node, ast.Call) and _called(node) in _BOUNDING_CALLS:
            parts = node.args
        elif (isinstance(node, ast.Assign) and _is_constant(node.targets[0])) or (
            isinstance(node, ast.AnnAssign) and _is_constant(node.target)
        ):
            parts = (node.value,)
        for part in parts:
            if isinstance(part, ast.Constant) and type(part.value) is int:
                yield self._replaced("bound", part, str(part.value + 1))

    def _arguments(self, node: ast.Call) -> Iterator[CodeFault]:
        if _called(node) in _LOGGING_CALLS:
            return
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(value, ast.Constant) and isinstance(value.value, bool):
                yield self._replaced("argument", value, str(not value.value))
        if len(node.args) > 1 and not any(isinstance(each, ast.Starred) for each in node.args[:2]):
            first, second = node.args[:2]
            start, end = self._start(first), self._end(second)
            between = self._source[self._end(first) : self._start(second)]
            after = self._text(second) + between + self._text(first)
            if self._text(first) != self._text(second):
                yield self._fault("argument", start, self._source[start:end], after)

    def _between(self, kind: str, start: int, end: int, pattern: str, after: str) -> Iterator[CodeFault]:
        match = re.search(pattern.encode(), self._source[start:end])
        if match is not None:
            yield self._fault(kind, start + match.start(), match[0], after.encode())

    def _replaced(self, kind: str, node: ast.expr, after: str) -> CodeFault:
        return self._fault(kind, self._start(node), self._text(node), after.encode())

    def _fault(self, kind: str, start: int, before: bytes, after: bytes) -> CodeFault:
        line = self._source.count(b"\n", 0, start)
        column = len(self._source[self._lines[line] : start].decode()) + 1
        return CodeFault(self._path, line + 1, column, kind, start, before, after)

    def _text(self, node: ast.expr) -> bytes:
        return self._source[self._start(node) : self._end(node)]

    def _start(self, node: ast.expr) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset


def _deciding(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that nothing is decided by: annotations, decorators, texts, and what only types need."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _deciding(child)


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_constant(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id.isupper()


def _compiles(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def faults_of(root: Path, path: str) -> list[CodeFault]:
    """Every fault that a file can have."""
    return _Finder(path, (root / path).read_bytes()).all()


def drawn_order(faults: Iterable[CodeFault], seed: str) -> Iterator[CodeFault]:
    """All of them in an order that the seed draws, in which each kind comes as often as the others."""
    draw = random.Random(seed)
    kinds: dict[str, list[CodeFault]] = {}
    for fault in sorted(faults):
        kinds.setdefault(fault.kind, []).append(fault)
    for candidates in kinds.values():
        draw.shuffle(candidates)
    while kinds:
        kind = draw.choice(sorted(kinds))
        yield kinds[kind].pop()
        if not kinds[kind]:
            del kinds[kind]


def draw_faults(
    root: Path, files: Iterable[str], packages: Sequence[str], number: int, seed: int, equivalent: Iterable[str] = ()
) -> list[CodeFault]:
    """So many faults, shared out among the packages; in the place of an equivalent one, the next of its package.

    Raises ValueError for a package without enough code, and for a name of an equivalent fault that was not drawn.
    """
    named = set(equivalent)
    drawn: list[CodeFault] = []
    passed_over: set[str] = set()
    for place, package in enumerate(packages):
        share = number // len(packages) + (place < number % len(packages))
        inside = [path for path in files if path.startswith(f"{package}/") and path.endswith(".py")]
        order = drawn_order((fault for path in inside for fault in faults_of(root, path)), f"{seed} {package}")
        chosen: list[CodeFault] = []
        for fault in order:
            if len(chosen) == share:
                break
            if fault.name in named:
                passed_over.add(fault.name)
            elif _compiles(fault.apply((root / fault.path).read_bytes())):
                chosen.append(fault)
        if len(chosen) < share:
            raise ValueError(f"{package} has no {share} places for a fault")
        drawn += chosen
    if named - passed_over:
        raise ValueError(f"named as equivalent, but not drawn by this seed: {', '.join(sorted(named - passed_over))}")
    return drawn
