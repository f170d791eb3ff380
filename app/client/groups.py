"""`--group`: groups that a principal is in, as commands take them, send them and show them."""

import argparse
from collections.abc import Iterable, Sequence

from app.client.words import utf_8
from app.core.groups import GROUP_PREFIX, MAX_GROUP_NAME, MAX_GROUPS
from app.core.readable import backticked, readable
from app.formats.command_errors import UsageError


def add_group_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--group",
        metavar="NAME",
        action="append",
        default=[],
        help="a group of the principal, such as eng-data, whose ACLs (Group:NAME) apply to it too; may be repeated",
    )


def groups_given(arguments: argparse.Namespace) -> tuple[str, ...]:
    return groups_named(arguments.group, "--group")


def groups_named(texts: Iterable[str], where: str) -> tuple[str, ...]:
    """In order, each once. Raises UsageError, which begins with `where`."""
    names = tuple(sorted({utf_8(name) for name in texts}))
    for name in names:
        if name.startswith(GROUP_PREFIX):
            raise UsageError(f"{where}: {backticked(name, 100)} is a principal; leave out `{GROUP_PREFIX}`")
        if not 0 < len(name) <= MAX_GROUP_NAME:
            raise UsageError(f"{where}: a group's name has 1 to {MAX_GROUP_NAME} characters")
    if len(names) > MAX_GROUPS:
        raise UsageError(f"{where}: {len(names)} groups are too many; name {MAX_GROUPS} at most")
    return names


def groups_body(groups: Sequence[str]) -> dict[str, object]:
    return {"groups": list(groups)} if groups else {}


def with_groups(principal: str, groups: Sequence[str]) -> str:
    """`User:bob (in eng-data, pii)`."""
    name = readable(principal)
    return f"{name} (in {', '.join(map(readable, groups))})" if groups else name
