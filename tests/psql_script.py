"""A script of psql, run over a connection: as much of psql as deploy/postgres/roles.sql uses.

tests/proof/integration/test_store_roles.py runs the script by psql itself, and compares.
"""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import asyncpg

_DEFAULT = re.compile(r"\\if :\{\?(\w+)\} \\else \\set \1 (\w+) \\endif")
_VARIABLE = re.compile(r""":(["'])(\w+)\1""")


async def run_script(dsn: str, script: str, **variables: str) -> None:
    """Run a script. Raises asyncpg's errors, and AssertionError for what it can't do."""
    connection = await asyncpg.connect(dsn, timeout=30)
    try:
        for statement, command in _statements(script, dict(variables)):
            if command == "connect":
                await connection.close()
                connection = await asyncpg.connect(urlsplit(dsn)._replace(path=f"/{statement}").geturl(), timeout=30)
            elif command == "gexec":
                for row in await connection.fetch(statement):
                    await connection.execute(row[0])
            else:
                await connection.execute(statement)
    finally:
        await connection.close()


def _statements(text: str, variables: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each statement, with what psql does with it: execute it, or execute what it returns, or connect to it."""
    lines: list[str] = []
    for line in text.splitlines():
        default = _DEFAULT.fullmatch(line)
        if default is not None:
            variables.setdefault(default[1], default[2])
        elif line.startswith("\\connect "):
            yield variables[line.removeprefix("\\connect ").strip(':"')], "connect"
        elif not line.startswith("--"):
            lines.append(line)
            statement = "\n".join(lines).strip()
            if statement.endswith((";", "\\gexec")):
                bare = statement.removesuffix("\\gexec")
                assert "\\" not in bare, f"only psql can run {statement}"
                yield _filled(bare, variables), "execute" if bare == statement else "gexec"
                lines = []
    assert not "".join(lines).strip(), lines


def _filled(statement: str, variables: Mapping[str, str]) -> str:
    """With the values of its variables, as names or as texts."""
    return _VARIABLE.sub(
        lambda found: f"{found[1]}{variables[found[2]].replace(found[1], found[1] * 2)}{found[1]}", statement
    )
