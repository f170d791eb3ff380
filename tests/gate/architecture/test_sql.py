"""SQL is written down, never put together from values (facts of the injections of others: one place is enough).

What reaches the database is a literal, or a name that stands for one in its module; values travel as bound parameters.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

COMPOSED: Mapping[tuple[str, str], str] = {
    (
        "app/store/writing/selection.py",
        "_statement",
    ): "names of columns from rows, and conditions by the shape of a filter, each a literal of the module",
    (
        "app/store/reading/changes.py",
        "_statement",
    ): "conditions by the shape of a filter, from app/store/filters.py, each a literal of that module",
    ("app/store/reading/state.py", "_present"): "the same, and names of columns from rows",
    ("app/store/reading/state.py", "_since"): "the same",
    ("app/store/rows.py", "insert_statement"): "names and types of columns, declared beside it",
    ("app/store/writing/head.py", "_move_head_statement"): "two of those",
    (
        "app/store/writing/journal.py",
        "fetch",
    ): "what its caller asks, which is looked at there, as the name is the same",
    ("app/store/writing/journal.py", "fetchval"): "the same",
    ("app/store/writing/journal.py", "execute"): "the same",
    ("app/store/rows.py", "select_acl_lines"): "names of columns, declared beside it",
}
"""Functions that may put SQL together from constants, and of what."""

ASKING = {
    *("execute", "executemany", "fetch", "fetchrow", "fetchval", "fetchmany", "scalar", "cursor", "prepare"),
    *("copy_from_query", "exec_driver_sql", "text"),
}
EXPRESSIONS = {"select", "insert"}
"""SQLAlchemy's own: they bind every value."""

_SQL = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|GRANT|REVOKE|TRUNCATE|COPY|SHOW|SET|NOTIFY|LISTEN|BEGIN"
    r"|FROM|WHERE|VALUES|JOIN|ORDER BY|LIMIT)\b"
)


class Module:
    """One source file, and what is wrong with its SQL."""

    def __init__(self, source: str, name: str) -> None:
        self._name = name
        self._tree = ast.parse(source)
        self._names = {
            target.id: node.value
            for node in self._tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        self._origins = {
            alias.name: f"{node.module.replace('.', '/')}.py"
            for node in self._tree.body
            if isinstance(node, ast.ImportFrom) and node.module is not None
            for alias in node.names
        }
        self._function = ""
        self.allowed: set[tuple[str, str]] = set()

    def faults(self) -> list[str]:
        return [f"{self._name}:{node.lineno} in {function}: {why}" for node, function, why in self._found()]

    def _found(self) -> Iterator[tuple[ast.expr, str, str]]:
        for node, function, loops in _nodes(self._tree, "", {}):
            if not isinstance(node, ast.expr):
                continue
            why = ""
            if self._is_composed(node):
                why = "SQL is put together"
            elif isinstance(node, ast.Call) and _asks(node) and not self._is_literal(node.args[0], loops):
                why = "what is asked is no literal"
            if not why:
                continue
            if (self._name, function) in COMPOSED:
                self.allowed.add((self._name, function))
            else:
                yield node, function, why

    def _is_literal(self, node: ast.expr | None, loops: Mapping[str, ast.expr]) -> bool:
        """Whether it is a literal, made of literals, or bound by SQLAlchemy."""
        parts: list[ast.expr | None] = [None]
        match node:
            case ast.Constant():
                parts = []
            case ast.Name():
                parts = [loops.get(node.id) or self._names.get(node.id)]
            case ast.Starred() | ast.Subscript():
                parts = [node.value]
            case ast.Tuple() | ast.List():
                parts = [*node.elts]
            case ast.Dict():
                parts = [*node.values]
            case ast.IfExp():
                parts = [node.body, node.orelse]
            case ast.Call(func=ast.Name(id=name)) if (
                name in EXPRESSIONS or (self._origins.get(name, self._name), name) in COMPOSED
            ):
                parts = []
            case ast.Call(func=ast.Name(id="text" | "str" | "MappingProxyType")):
                parts = [*node.args]
        return all(part is not None and self._is_literal(part, loops) for part in parts)

    def _is_composed(self, node: ast.expr) -> bool:
        """Whether text is put together here, and SQL is in it."""
        match node:
            case ast.JoinedStr():
                composed = any(isinstance(part, ast.FormattedValue) for part in node.values)
            case ast.BinOp(op=ast.Mod() | ast.Add()) | ast.Call(func=ast.Name(id="Template")):
                composed = True
            case ast.Call(func=ast.Attribute(attr="format" | "format_map" | "join" | "replace")):
                composed = True
            case _:
                composed = False
        return composed and any(_is_sql(text) for text in self._texts(node))

    def _texts(self, node: ast.AST) -> Iterator[str]:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value
            elif isinstance(each, ast.Name) and isinstance(self._names.get(each.id), ast.Constant):
                yield from self._texts(self._names[each.id])


def _nodes(
    tree: ast.AST, function: str, loops: Mapping[str, ast.expr]
) -> Iterator[tuple[ast.AST, str, Mapping[str, ast.expr]]]:
    """Every node, the function that it stands in, and what the loops around it run through."""
    for node in ast.iter_child_nodes(tree):
        inside, running = function, loops
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = node.name
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            running = {**loops, node.target.id: node.iter}
        yield node, inside, running
        yield from _nodes(node, inside, running)


def _asks(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in ASKING and bool(call.args)


def _is_sql(text: str) -> bool:
    # Two words, as messages for people shout one now and then.
    return len(_SQL.findall(text)) > 1 or re.match(r"\s*" + _SQL.pattern, text) is not None


def _modules() -> Iterator[Module]:
    for folder in ("app/store", "migrations"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield Module(path.read_text(), str(path.relative_to(ROOT)))


def test_no_sql_is_put_together_from_values() -> None:
    modules = list(_modules())

    assert [fault for module in modules for fault in module.faults()] == []
    assert {each for module in modules for each in module.allowed} == set(COMPOSED), "an exception that nobody needs"


def test_what_is_put_together_is_found(subtests: pytest.Subtests) -> None:
    for source in [
        'async def f(c, x): await c.fetch(f"SELECT {x}")',
        'async def f(c, x): await c.fetch("SELECT * FROM acl WHERE id = %s" % x)',
        'async def f(c, x): await c.fetch("SELECT * FROM acl WHERE id = " + x)',
        'async def f(c, x): await c.fetch("SELECT * FROM {}".format(x))',
        'async def f(c, x): await c.fetch(" ".join(["SELECT", x]))',
        'async def f(c, x): await c.fetch("SELECT * FROM t".replace("t", x))',
        "async def f(c, x): await c.fetch(x)",
        'async def f(c, x):\n    q = f"DELETE FROM {x}"\n    await c.execute(q)',
        'Q = f"TRUNCATE {__name__}"\nasync def f(c): await c.execute(Q)',
        "async def f(c, all):\n    for q in all:\n        await c.execute(q)",
        "async def f(c, x): await c.execute(build(x))",
        "async def f(c, x): await c.execute(text(x))",
        "Q = {1: build()}\nasync def f(c, x): await c.execute(Q[x])",
        "async def f(c, x): await c.copy_from_query(x, output=1)",
        'async def f(c, x): await c.fetch("SELECT 1" if x else x)',
        'Q = "SELECT * FROM acl WHERE "\nasync def f(c, x):\n    q = Q + x',
    ]:
        with subtests.test(source=source):
            assert Module(source, "planted.py").faults()


def test_literals_pass(subtests: pytest.Subtests) -> None:
    for source in [
        'async def f(c, x): await c.fetch("SELECT $1", x)',
        'Q = "SELECT $1"\nasync def f(c, x): await c.fetch(Q, x)',
        'Q = {1: "SELECT 1"}\nasync def f(c, x): await c.execute(Q[x])',
        'A = ("SELECT 1",)\nasync def f(c):\n    for q in ("SELECT 2", *A):\n        await c.execute(q)',
        'async def f(c, x): raise ValueError(f"SQLSTATE {x}; retry")',
        "async def f(c, t): await c.scalar(select(t.c.id))",
    ]:
        with subtests.test(source=source):
            assert Module(source, "planted.py").faults() == []
