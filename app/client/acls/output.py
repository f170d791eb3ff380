"""ACLs for programs: JSON, YAML and CSV, each with the seven fields."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TextIO

from app.client.acls.text import harmless
from app.client.http.replies import binding_body
from app.core.kafka.bindings import AclBinding
from app.formats.acl_csv import write_csv
from app.formats.command_errors import UsageError
from app.formats.quoting import json_quoted, wide_quoted

Writer = Callable[[Sequence[AclBinding], TextIO], None]


def write_json(bindings: Sequence[AclBinding], out: TextIO) -> None:
    """An array with an ACL a line, its fields named as in Klamm's REST API."""
    out.write("[")
    separator = "\n"
    for binding in bindings:
        fields = ", ".join(f'"{name}": {json_quoted(text)}' for name, text in binding_body(binding).items())
        out.write(f"{separator}  {{{fields}}}")
        separator = ",\n"
    out.write("\n]\n" if bindings else "]\n")


def write_yaml(bindings: Sequence[AclBinding], out: TextIO) -> None:
    """A sequence of mappings; all texts are quoted, so that no parser takes `*` or `no` for something else."""
    if not bindings:
        out.write("[]\n")
    for binding in bindings:
        fields = [f"{name}: {wide_quoted(text)}" for name, text in binding_body(binding).items()]
        out.write("- " + "\n  ".join(fields) + "\n")


def write_table(bindings: Sequence[AclBinding], out: TextIO) -> None:
    """CSV, which has no escapes: a terminal gets what it would obey as `klamm acls --list` shows it."""
    write_csv(list(map(_shown, bindings)) if out.isatty() else bindings, out)


def _shown(binding: AclBinding) -> AclBinding:
    b = binding
    return replace(b, resource_name=harmless(b.resource_name), principal=harmless(b.principal), host=harmless(b.host))


WRITERS: dict[str, Writer] = {"json": write_json, "yaml": write_yaml, "csv": write_table}


def writer_named(name: str) -> Writer:
    """The writer of `--output`. Raises UsageError for a name that there is not."""
    writer = WRITERS.get(name.lower())
    if writer is None:
        raise UsageError(f"--output: there is no form `{name[:100]}`; write one of {', '.join(WRITERS)}")
    return writer
