"""What is printed: kafka-acls' texts to the letter (Kafka 4.3.1), in a stable order, and JSON, YAML and CSV.

Each ACL is on one line. INVARIANT: whatever `WRITERS` give to a file is read back as the same ACLs, or refused.
"""

import io
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import TextIO

from app.client.acls.meaning import Entry, Pattern
from app.client.words import harmless
from app.core.kafka.bindings import NewAcl
from app.formats.acl_bodies import acl_body
from app.formats.acl_csv import write_csv
from app.formats.acl_entries import terms_note
from app.formats.command_errors import UsageError
from app.formats.kafka_acls_text import write_kafka_acls_text
from app.formats.quoting import json_quoted, wide_quoted

Writer = Callable[[Sequence[NewAcl], TextIO], None]

Show = Callable[[str], str]
"""How a name, a principal or a host is shown: on one line, and on a terminal without anything that moves the cursor."""

_LINE_ENDS = {ord(each): each.encode("unicode_escape").decode() for each in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
"""Every character that some program takes for a line end."""


def on_one_line(text: str) -> str:
    r"""For files and pipes: the text as it is stored, but with line ends escaped (`\n`), which could forge ACLs."""
    return text.translate(_LINE_ENDS)


def pattern_text(pattern: Pattern, show: Show) -> str:
    return (
        f"ResourcePattern(resourceType={pattern.resource_type.name}, name={show(pattern.name)}, "
        f"patternType={pattern.pattern_type.name})"
    )


def entry_text(entry: Entry, show: Show) -> str:
    return (
        f"(principal={show(entry.principal)}, host={show(entry.host)}, operation={entry.operation.name}, "
        f"permissionType={entry.permission_type.name})"
    )


def current_acls(pattern: Pattern, acls: Iterable[NewAcl], show: Show) -> str:
    """An ACL's end and owner, which kafka-acls does not know, follow its line."""
    entries = sorted((Entry.of(acl.binding), terms_note(acl)) for acl in acls)
    lines = "\n".join(f"\t{entry_text(entry, show)}{note}" for entry, note in entries)
    return f"Current ACLs for resource `{pattern_text(pattern, show)}`:\n{lines}\n\n"


def acls_for_principal(principal: str, show: Show) -> str:
    return f"ACLs for principal `{show(principal)}`\n"


def already_exists(pattern: Pattern, entry: Entry, show: Show) -> str:
    return f"Acl (pattern={pattern_text(pattern, show)}, entry={entry_text(entry, show)}) already exists.\n"


def adding(pattern: Pattern, entries: Iterable[Entry], show: Show) -> str:
    return f"Adding ACLs for resource `{pattern_text(pattern, show)}`: \n {_lines(entries, show)}\n\n"


def removing(pattern: Pattern, entries: Collection[Entry], show: Show) -> str:
    if not entries:
        resource = pattern_text(pattern, show)
        return f"Are you sure you want to delete all ACLs for resource filter `{resource}`? (y/n)\n"
    return (
        f"Are you sure you want to remove ACLs: \n {_lines(entries, show)}\n"
        f" from resource filter `{pattern_text(pattern, show)}`? (y/n)\n"
    )


def _lines(entries: Iterable[Entry], show: Show) -> str:
    return "\n".join(f"\t{entry_text(entry, show)}" for entry in sorted(entries))


def write_json(acls: Sequence[NewAcl], out: TextIO) -> None:
    """An array with one ACL a line; the fields have the names of the REST API."""
    out.write("[")
    separator = "\n"
    for acl in acls:
        fields = ", ".join(f'"{name}": {_or_null(text, json_quoted)}' for name, text in acl_body(acl).items())
        out.write(f"{separator}  {{{fields}}}")
        separator = ",\n"
    out.write("\n]\n" if acls else "]\n")


def write_yaml(acls: Sequence[NewAcl], out: TextIO) -> None:
    """A sequence of mappings. All texts are quoted, so that no parser takes `*` or `no` for something else."""
    if not acls:
        out.write("[]\n")
    for acl in acls:
        fields = [f"{name}: {_or_null(text, wide_quoted)}" for name, text in acl_body(acl).items()]
        out.write("- " + "\n  ".join(fields) + "\n")


def _or_null(text: str | None, quoted: Callable[[str], str]) -> str:
    return "null" if text is None else quoted(text)


def write_table(acls: Sequence[NewAcl], out: TextIO) -> None:
    """CSV has no escapes, so a terminal gets texts as `klamm acls --list` shows them."""
    if out.isatty():
        acls = list(map(_harmless, acls))
    write_csv(acls, out)


def _harmless(acl: NewAcl) -> NewAcl:
    b, owner = acl.binding, acl.owner
    shown = b._replace(resource_name=harmless(b.resource_name), principal=harmless(b.principal), host=harmless(b.host))
    return acl._replace(binding=shown, owner=harmless(owner) if isinstance(owner, str) else owner)


def write_text(acls: Sequence[NewAcl], out: TextIO) -> None:
    """kafka-acls' text, with names as they are stored; a terminal gets them as `klamm acls --list` shows them.

    Raises FormatLimitError before anything is written if it could not be read back.
    """
    is_seen = out.isatty()
    if not is_seen:
        write_kafka_acls_text([each.binding for each in acls], io.StringIO())
    by_pattern = groupby(acls, lambda acl: Pattern.of(acl.binding))
    out.writelines(current_acls(*each, harmless if is_seen else str) for each in by_pattern)


WRITERS: dict[str, Writer] = {"json": write_json, "yaml": write_yaml, "csv": write_table, "text": write_text}
"""By the words of --output. Each takes the ACLs in the order of `klamm acls --list`."""


def writer_named(name: str, *, lists: bool) -> Writer:
    """Raises UsageError, also for the text of what was added or removed: that can't say all names."""
    writer = WRITERS.get(name.lower())
    if writer is None:
        raise UsageError(f"--output: unknown format `{name[:100]}`; use one of {', '.join(WRITERS)}")
    if writer is write_text and not lists:
        raise UsageError("--output text goes with --list; choose json, yaml or csv")
    return writer
