"""An explanation for people: plain lines that nothing cuts, with some colour on a terminal."""

import json
from collections.abc import Iterable, Sequence
from typing import TextIO

from app.client.acls.command_lines import command_for
from app.client.acls.text import harmless
from app.client.http.replies import binding_body
from app.client.pipe_console import PipeConsole
from app.client.why.reply import Asked, Explained
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, AclPermissionType, PatternType, ResourceType

_RULES = {
    "SuperUser": "no ACL is asked (SuperUser)",
    "MatchingAcl": "this ACL decides (MatchingAcl):",
    "DefaultAllow": "no ACL is on this resource (DefaultAllow)",
    "DefaultDeny": "no ACL allows it (DefaultDeny)",
}
_HEADING = "bold"


def print_explanation(asked: Asked, found: Explained, access: Sequence[str], out: TextIO) -> None:
    """Print it; `access` are the flags that commands need to reach the same service."""
    page = _Page(out)
    word, style = ("ALLOWED", "bold green") if found.is_allowed else ("DENIED", "bold red")
    resource = resource_text(asked.resource_type, asked.resource_name)
    page.line(f"{asked.principal} {asked.operation.name} {resource} from {asked.host}", before=word, style=style)
    page.line(_RULES.get(found.rule, found.rule), indent=1)
    if found.acl is not None:
        page.line(acl_text(found.acl), indent=2)
    if found.matching_count > (found.acl is not None):
        page.heading(_counted("Every ACL that matches", found.matching_count, len(found.matching)))
        page.lines(map(acl_text, found.matching))
    # What is allowed works; DENYs that don't meet it are for programs to look through (--output json).
    near_misses = () if found.is_allowed else found.near_misses
    if near_misses:
        page.heading("ACLs that nearly match")
    for binding, detail in near_misses:
        page.line(acl_text(binding), indent=1)
        page.line(detail, indent=2)
    _print_way_out(page, found, access)
    if found.note is not None:
        page.heading("Note")
        page.lines(found.note.split("; "))
    page.line("")
    page.line(f"As of {found.token}" if found.token is not None else "The service has not loaded its ACLs yet")


def acl_text(binding: AclBinding) -> str:
    """The ACL in one line: `ALLOW READ to User:bob from any host on topic:orders`."""
    to = "to" if binding.permission_type is AclPermissionType.ALLOW else "for"
    host = "any host" if binding.host == WILDCARD else binding.host
    resource = resource_text(binding.resource_type, binding.resource_name, binding.pattern_type)
    return f"{binding.permission_type.name} {binding.operation.name} {to} {binding.principal} from {host} on {resource}"


def resource_text(resource_type: ResourceType, name: str, pattern_type: PatternType | None = None) -> str:
    """The resource as it is asked about: `topic:orders`; a pattern says if it covers more than its name."""
    text = f"{resource_type.name.lower().replace('_', '-')}:{name}"
    if pattern_type is PatternType.PREFIXED:
        return f"{text} (PREFIXED: all names that begin so)"
    return f"{text} (all names)" if pattern_type is PatternType.LITERAL and name == WILDCARD else text


def _print_way_out(page: "_Page", found: Explained, access: Sequence[str]) -> None:
    """What has to be typed for it to be allowed."""
    if found.denying:
        page.heading(_counted("To allow it, remove every ACL that denies it", found.denying_count, len(found.denying)))
        page.lines(_command("remove", each, access) for each in found.denying)
    if found.needed_besides is not None:
        page.heading("and then add the smallest ACL that allows it")
        page.line(_command("add", found.needed_besides, access), indent=1)
    if found.smallest is not None:
        page.heading("To allow it, add the smallest ACL that does")
        page.line(_command("add", found.smallest, access), indent=1)


def _command(action: str, binding: AclBinding, access: Sequence[str]) -> str:
    command = command_for(action, binding, access)
    if command is not None:
        return command
    # ASCII, so that it can be copied as it is.
    call = "createAcls" if action == "add" else "deleteAcls"
    return f"no command line can say it; send it to {call}: {json.dumps(binding_body(binding))}"


def _counted(text: str, count: int, listed: int) -> str:
    return f"{text} ({count})" if count == listed else f"{text} (the first {listed} of {count})"


class _Page:
    """Lines in their order. Nothing is wrapped, and nothing in a name reaches the terminal as a command."""

    def __init__(self, out: TextIO) -> None:
        self._console = PipeConsole(file=out, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def line(self, text: str, *, indent: int = 0, before: str = "", style: str = "") -> None:
        """One line; `before` stands at its beginning, in this style."""
        if before:
            self._console.print(before, style=style, end=" ")
        self._console.print("  " * indent + harmless(text))

    def lines(self, texts: Iterable[str]) -> None:
        """Lines below a heading."""
        for text in texts:
            self.line(text, indent=1)

    def heading(self, text: str) -> None:
        """A heading, with some space before it."""
        self._console.print()
        self._console.print(harmless(text), style=_HEADING)
