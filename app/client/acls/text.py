"""What kafka-acls prints, to the letter (Kafka 4.3.1), but in a stable order, and each ACL on its one line."""

from collections.abc import Callable, Iterable

from app.client.acls.meaning import Entry, Pattern
from app.formats.arguments import one_line

Show = Callable[[str], str]
"""How a name, a principal or a host is shown: on one line, and on a terminal without what would move the cursor."""

NL = "\n"
_LINE_ENDS = {ord(each): each.encode("unicode_escape").decode() for each in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
"""What one reader or another takes for the end of a line."""


def on_one_line(text: str) -> str:
    r"""For files and pipes, which get what is stored, but line ends as escapes (`\n`): they would make up ACLs."""
    return text.translate(_LINE_ENDS)


def harmless(text: str) -> str:
    r"""For terminals: what can't be printed comes as an escape, such as `\x1b`."""
    return one_line(text, len(text))


def pattern_text(pattern: Pattern, show: Show) -> str:
    """`ResourcePattern.toString`, and that of filters."""
    return (
        f"ResourcePattern(resourceType={pattern.resource_type.name}, name={show(pattern.name)}, "
        f"patternType={pattern.pattern_type.name})"
    )


def entry_text(entry: Entry, show: Show) -> str:
    """`AccessControlEntry.toString`."""
    return (
        f"(principal={show(entry.principal)}, host={show(entry.host)}, operation={entry.operation.name}, "
        f"permissionType={entry.permission_type.name})"
    )


def current_acls(pattern: Pattern, entries: Iterable[Entry], show: Show) -> str:
    """One resource of a listing."""
    return f"Current ACLs for resource `{pattern_text(pattern, show)}`:{NL}{_lines(entries, show)}{NL}{NL}"


def acls_for_principal(principal: str, show: Show) -> str:
    """What stands before the listing of one principal."""
    return f"ACLs for principal `{show(principal)}`{NL}"


def already_exists(pattern: Pattern, entry: Entry, show: Show) -> str:
    """What is said of an ACL that need not be added."""
    return f"Acl (pattern={pattern_text(pattern, show)}, entry={entry_text(entry, show)}) already exists.{NL}"


def adding(pattern: Pattern, entries: Iterable[Entry], show: Show) -> str:
    """What is said before ACLs are added."""
    return f"Adding ACLs for resource `{pattern_text(pattern, show)}`: {NL} {_lines(entries, show)}{NL}{NL}"


def removing(pattern: Pattern, entries: Iterable[Entry], show: Show) -> str:
    """What is asked before these entries are removed."""
    return (
        f"Are you sure you want to remove ACLs: {NL} {_lines(entries, show)}{NL}"
        f" from resource filter `{pattern_text(pattern, show)}`? (y/n){NL}"
    )


def removing_all(pattern: Pattern, show: Show) -> str:
    """What is asked before every entry is removed."""
    return f"Are you sure you want to delete all ACLs for resource filter `{pattern_text(pattern, show)}`? (y/n){NL}"


def _lines(entries: Iterable[Entry], show: Show) -> str:
    return NL.join(f"\t{entry_text(entry, show)}" for entry in sorted(entries))
