"""A plan for a pull request, as Markdown tables for GitHub and GitLab. No name can break them."""

import re
from collections.abc import Sequence

from app.client.console import MAX_LINES
from app.client.plan.output import (
    CONFIG_UNKNOWN,
    GROUPS_CHANGE,
    UNRESOLVED,
    acl_parts,
    change_parts,
    changes_groups,
    nobody_text,
    summary_text,
    terms_changes,
    unresolved_parts,
)
from app.client.plan.planning import Plan
from app.core.access.diff import AccessDiff
from app.core.kafka.bindings import AclBinding, NewAcl
from app.formats.acl_entries import terms_note
from app.formats.arguments import one_line

MAX_CHARACTERS = 60_000
"""A comment on GitHub takes 65,536. What does not fit is counted."""

MAX_CELL = 300

_PLAIN = re.compile(r"[A-Za-z0-9._:/@*,=+#()$%&~^;?!\[\]{}<>\"' -]+\Z")
"""What stands in a code span as it is: nothing there is a link, a tag or emphasis, and none of it ends the span."""
_CHANGES = ("Who", "Operations", "Resource", "From")
_ACLS = ("Permission", "Who", "Operation", "Resource", "From")
_TERMS = "End and owner"


def plan_page(
    plan: Plan,
    access: AccessDiff,
    refusal: str | None,
    notes: Sequence[str] = (),
    *,
    config_known: bool,
    files: int,
) -> str:
    """`refusal` is why apply would refuse the plan; `notes` are what nobody may miss of its files."""
    page = _Page()
    page.text(f"### klamm plan\n\n{summary_text(plan, files)}")
    if refusal is not None:
        page.text(f"> **apply will refuse this:** {refusal}")
    for note in notes:
        page.text(f"> {code(note)}")
    if plan.is_empty:
        return page.whole()
    if not config_known:
        page.text(f"> {CONFIG_UNKNOWN}")
    if changes_groups(plan):
        page.text(f"> {GROUPS_CHANGE}")
    for title, gained in (("Access lost", False), ("Access gained", True)):
        page.table(title, _CHANGES, [change_parts(each) for each in access.changes if each.gained is gained])
    page.table(UNRESOLVED, ("Who", "What"), [unresolved_parts(each) for each in access.unresolved])
    if not access.changes and not access.unresolved:
        page.text(nobody_text(plan))
    page.table("ACLs to delete", *_acls(plan.delete))
    changed = [(*_row(each.binding), terms_changes(each)) for each in plan.change]
    page.table("ACLs to change", (*_ACLS, _TERMS), changed)
    page.table("ACLs to create", *_acls(plan.create))
    return page.whole()


def code(text: str) -> str:
    r"""The text for a table's cell, on one line; characters that can't be seen are escaped (`\n`)."""
    short = one_line(text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]}... ({len(text)} characters)")
    if not short:
        return ""
    # Consecutive blanks would be shown as one.
    spread = re.sub(" {2,}", lambda found: "\\x20" * len(found[0]), short)
    if _PLAIN.match(spread) and spread == spread.strip():
        return f"`{spread}`"
    # INVARIANT: whatever could end the cell or begin a tag, a link or emphasis is written as a character reference.
    return f"<code>{''.join(each if each.isalnum() else f'&#{ord(each)};' for each in spread)}</code>"


def _acls(acls: Sequence[NewAcl]) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """Columns and rows; ends and owners have a column if there are any."""
    notes = [terms_note(acl).strip() for acl in acls]
    if not any(notes):
        return _ACLS, [_row(acl.binding) for acl in acls]
    return (*_ACLS, _TERMS), [(*_row(acl.binding), note) for acl, note in zip(acls, notes, strict=True)]


def _row(acl: AclBinding) -> tuple[str, ...]:
    return acl.permission_type.name, *acl_parts(acl)


class _Page:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = MAX_CHARACTERS

    def text(self, text: str) -> None:
        self._parts.append(f"{text}\n")
        self._left -= len(text)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        if not rows:
            return
        lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        shown = 0
        for row in rows[:MAX_LINES]:
            line = f"| {' | '.join(map(code, row))} |"
            if len(line) > self._left:
                break
            self._left -= len(line) + 1
            lines.append(line)
            shown += 1
        self.text(f"**{title}** ({len(rows)})")
        if shown:
            self._parts.append("\n".join(lines) + "\n")
        if shown < len(rows):
            self.text(f"... and {len(rows) - shown} more; `--output json` shows all")

    def whole(self) -> str:
        return "\n".join(self._parts)
