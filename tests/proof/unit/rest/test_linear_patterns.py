"""No regular expression that may meet input is worse than linear, neither those of today nor those to come."""

import ast
import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Callable, Iterator
from re import _constants as sre  # how Python takes patterns apart
from re import _parser
from types import ModuleType
from typing import Any

import pytest

import app.console
import app.core
import app.logs.audit
import app.logs.json_text
import app.logs.redaction
import app.rest
import app.runtime
from tests.linear import MOST, grows, is_linear

SIZE = 4_096
"""And four times as much: what a head may have."""
_METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")


def modules() -> Iterator[ModuleType]:
    """Those that input gets to: what it is read with, and what writes it to logs."""
    for package in (app.console, app.core, app.rest, app.runtime):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(each.name)  # noqa: TID251 - whichever modules there are
    yield from (app.logs.audit, app.logs.json_text, app.logs.redaction)


def patterns() -> dict[str, tuple[re.Pattern[Any], frozenset[str]]]:
    """Every pattern of theirs, and how it is used."""
    found: dict[str, tuple[re.Pattern[Any], frozenset[str]]] = {}
    for module in modules():
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            pattern = value if isinstance(value, re.Pattern) else getattr(value, "__self__", None)
            if isinstance(pattern, re.Pattern):
                bound = () if value is pattern else (value.__name__,)
                used = frozenset((*bound, *re.findall(rf"\b{name}\.({'|'.join(_METHODS)})\b", source)))
                found[f"{module.__name__}.{name}"] = pattern, used
    return found


PATTERNS = patterns()


def characters(parsed: Any) -> Iterator[int]:  # noqa: ANN401 - a tree of tuples
    """One of each kind that the pattern speaks of."""
    if isinstance(parsed, _parser.SubPattern):
        parsed = list(parsed)
    if isinstance(parsed, tuple) and len(parsed) == 2 and parsed[0] is sre.LITERAL:
        yield parsed[1]
    elif isinstance(parsed, tuple) and len(parsed) == 2 and parsed[0] is sre.RANGE:
        yield parsed[1][0]
    elif isinstance(parsed, list | tuple):
        for each in parsed:
            yield from characters(each)


def beginning(pattern: re.Pattern[Any]) -> str:
    """The literal text that a match begins with."""
    literals = itertools.takewhile(
        lambda part: part[0] is sre.LITERAL, _parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    )
    return "".join(chr(code) for _, code in literals)


def shapes(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """A beginning, what comes again and again, and an end: of the characters that the pattern itself speaks of."""
    codes = {*characters(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)), *map(ord, " \ta0")}
    chosen = [chr(code) for code in sorted(codes) if code < 0x110000][:24]
    units = [*chosen, *("".join(pair) for pair in itertools.permutations(chosen[:6], 2))]
    for begin in {"", beginning(pattern)}:
        for unit in units:
            for end in ("", "\0"):
                yield begin, unit, end


def work_of(
    pattern: re.Pattern[Any], method: str, shape: tuple[str, str, str]
) -> Callable[[int], Callable[[], object]]:
    begin, unit, end = shape

    def of(size: int) -> Callable[[], object]:
        text: str | bytes = begin + unit * (size // len(unit)) + end
        if isinstance(pattern.pattern, bytes):
            text = str(text).encode("latin-1", "replace")
        if method in ("sub", "subn"):
            return lambda: pattern.sub(pattern.pattern[:0], text)
        if method == "finditer":
            return lambda: list(pattern.finditer(text))
        used: Callable[[Any], object] = getattr(pattern, method)
        return lambda: used(text)

    return of


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_no_longer_than_its_input_is_long(name: str) -> None:
    pattern, methods = PATTERNS[name]
    assert methods, f"how {name} is used is not known: call its methods by its name"
    slow = [
        (method, shape)
        for method in sorted(methods)
        for shape in shapes(pattern)
        if not is_linear(work_of(pattern, method, shape), SIZE)
    ]
    assert slow == []


def test_a_pattern_that_is_worse_than_linear_is_found() -> None:
    for bad in (r"application/json(?:\s*;\s*charset)?\s*;?\s*\Z", r"\s+$", r"a*a*b", r"(?:;[^\n]*)?(?:;.*)?\r"):
        pattern = re.compile(bad)
        assert any(grows(work_of(pattern, "search", shape), 96) >= MOST for shape in shapes(pattern)), bad


def test_patterns_stand_where_they_are_found() -> None:
    hidden = []
    for module in modules():
        if module is app.logs.redaction:
            # It looks for the first of some characters, which its caller names.
            continue
        tree = ast.parse(inspect.getsource(module))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                hidden += [
                    f"{module.__name__}:{node.lineno}"
                    for node in ast.walk(function)
                    if isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "re"
                    and node.attr in (*_METHODS, "compile")
                ]
    assert hidden == []
