"""docs/callers.md tells every word that a refused caller may be logged and counted under."""

import ast
import re
from pathlib import Path

from app.rest.callers import jwt_tokens

ROOT = Path(__file__).parents[4]
REASON_FUNCTIONS = (("authentication.py", "_reason_of"), ("authentication.py", "_fault_of"))
"""They return such texts."""


def words_of_the_code() -> set[str]:
    """Every text that a TokenRefusedError is raised with, or that one of the functions returns."""
    found = set(jwt_tokens.REASONS)
    for path in (ROOT / "app" / "rest" / "callers").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "TokenRefusedError":
                texts = [
                    each for argument in node.args for each in ast.walk(argument) if isinstance(each, ast.Constant)
                ]
                found |= {each.value for each in texts if isinstance(each.value, str)}
            elif isinstance(node, ast.FunctionDef) and (path.name, node.name) in REASON_FUNCTIONS:
                texts = [each for body in node.body for each in ast.walk(body) if isinstance(each, ast.Constant)]
                found |= {each.value for each in texts if isinstance(each.value, str) and each.value.isidentifier()}
    return found


def test_the_page_has_each_word_and_no_other() -> None:
    page = (ROOT / "docs" / "callers.md").read_text()
    listed = page.partition("`klamm_callers_refused_total` has the same reasons:")[2].partition("\n- ")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == words_of_the_code()
