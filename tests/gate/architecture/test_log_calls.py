"""Every event of the service's log has a static name, and fields of its own."""

import ast
from functools import cache
from pathlib import Path

import pytest

from app.logs.service import LIBRARY_MESSAGE, RESERVED

APP = Path(__file__).parents[3] / "app"
METHODS = {"debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log"}
LOGGERS = {"_LOG", "_log", "_logger", "logger", "log", "LOG", "logging"}
ALLOWED_KEYWORDS = {"extra", "exc_info", "stack_info"}


@cache
def log_calls(source: str) -> list[ast.Call]:
    """Every call that writes a line, whatever its logger is called or made of."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            owner = node.func.value
            made_here = isinstance(owner, ast.Call) and ast.unparse(owner.func).endswith("getLogger")
            if made_here or ast.unparse(owner).rpartition(".")[2] in LOGGERS:
                found.append(node)
    return found


def faults(source: str) -> list[str]:
    """What is wrong with the log calls of a module, line by line."""
    found = []
    for call in log_calls(source):
        arguments = call.args[1:] if ast.unparse(call.func).endswith(".log") else call.args
        name = arguments[0].value if len(arguments) == 1 and isinstance(arguments[0], ast.Constant) else None
        static = isinstance(name, str) and name.isascii() and name.isidentifier() and name == name.lower()
        if not static or name == LIBRARY_MESSAGE:
            found.append(f"line {call.lineno}: the event is not the literal of a static name")
        found += [f"line {call.lineno}: {each.arg}" for each in call.keywords if each.arg not in ALLOWED_KEYWORDS]
        for extra in (each.value for each in call.keywords if each.arg == "extra"):
            keys = extra.keys if isinstance(extra, ast.Dict) else []
            found += [
                f"line {call.lineno}: the field {ast.unparse(key) if key else '**'} is not a name of its own"
                for key in keys
                if not isinstance(key, ast.Constant) or key.value in RESERVED
            ]
    return found


def test_every_event_has_a_static_name() -> None:
    texts = {path.relative_to(APP): path.read_text(encoding="utf-8") for path in APP.rglob("*.py")}
    assert {path: found for path, text in texts.items() if (found := faults(text))} == {}
    assert sum(len(log_calls(text)) for text in texts.values()) > 30


def test_other_calls_are_caught(subtests: pytest.Subtests) -> None:
    for line in [
        '_LOG.info(f"x_{1}")',
        '_log.info("of %s", 1)',
        '_logger.error("Not a name")',
        "logging.warning(text)",
        'logging.getLogger("a").error("A")',
        'self._log.info("a" + b)',
        '_LOG.log(20, "a.b")',
        "_LOG.exception()",
        '_LOG.info("a", extra={"event": 1})',
        '_LOG.info("a", extra={**b})',
        '_LOG.info("a", stacklevel=2)',
        '_LOG.info("library_message")',
        '_LOG.info(msg="a")',
    ]:
        with subtests.test(line=line):
            assert faults(line) != []


def test_names_with_fields_are_right() -> None:
    assert faults('_LOG.info("feed_lost2", extra={"a": 1}, exc_info=fault)\n_LOG.log(20, "a_b", extra=shown)') == []
