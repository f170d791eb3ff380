"""A plan for people: lines, coloured on a terminal."""

from collections.abc import Sequence
from typing import TextIO

from rich.text import Text

from app.client.pipe_console import PipeConsole
from app.client.plan.output import CONFIG_UNKNOWN, MAX_LINES, acl_text, change_text, summary_text, unresolved_text
from app.client.plan.planning import Plan
from app.core.access.diff import AccessDiff


def print_plan(plan: Plan, access: AccessDiff, out: TextIO, *, config_known: bool, files: int = 1) -> None:
    """For people. What is too long is cut with a line that says so."""
    console = PipeConsole(file=out, highlight=False, soft_wrap=True)
    _print_some(console, "green", [f"  + {acl_text(acl)}" for acl in plan.create])
    _print_some(console, "red", [f"  - {acl_text(acl)}" for acl in plan.delete])
    console.print(summary_text(plan, files))
    if plan.is_empty:
        return
    if not config_known:
        console.print(Text(CONFIG_UNKNOWN, style="yellow"))
    lost = [change_text(each) for each in access.changes if not each.gained]
    gained = [change_text(each) for each in access.changes if each.gained]
    for title, style, lines in (("Access lost:", "red", lost), ("Access gained:", "green", gained)):
        if lines:
            console.print(f"\n{title}")
            _print_some(console, style, [f"  {line}" for line in lines])
    if access.unresolved:
        console.print("\nToo much to be worked out; this may be gained and lost as well:")
        _print_some(console, "yellow", [f"  {unresolved_text(each)}" for each in access.unresolved])
    if not access.changes and not access.unresolved:
        console.print("\nNobody gains or loses any access.")


def _print_some(console: PipeConsole, style: str, lines: Sequence[str]) -> None:
    for line in lines[:MAX_LINES]:
        console.print(Text(line, style=style))
    if len(lines) > MAX_LINES:
        console.print(f"  ... and {len(lines) - MAX_LINES} more; --output json tells all")
