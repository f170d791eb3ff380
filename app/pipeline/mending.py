"""Findings as files for whoever mends: CSV to look through, and a shell script to run once it was looked through."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app.pipeline.row_output import csv_line, one_line
from app.pipeline.schemas import FINDINGS

_HEAD = """\
#!/usr/bin/env bash
# Mends what `klamm pipeline hygiene` found in cluster {cluster} at offset {offset}.
# READ IT FIRST, and delete what shall stay. BOOTSTRAP names a broker; COMMAND_CONFIG, if set, a properties file.
set -euo pipefail
: "${{BOOTSTRAP:?set it to host:port of a broker}}"
kafka-acls() {{ command kafka-acls ${{COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"}} "$@"; }}"""


def csv_lines(findings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The findings with a header line; several commands stand in one field, a line each."""
    yield csv_line(FINDINGS.fieldNames())
    for finding in findings:
        yield csv_line([_field(finding[name]) for name in FINDINGS.fieldNames()])


def script_lines(findings: Iterable[Mapping[str, Any]], cluster_id: str, offset: int) -> Iterator[str]:
    """A shell script with the commands of all findings; a command that several findings need stands once."""
    yield _HEAD.format(cluster=one_line(cluster_id), offset=offset)
    done: set[str] = set()
    for finding in findings:
        commands = [command for command in finding["mend"] if command not in done]
        done.update(commands)
        if commands:
            # A comment must not end before its text does.
            yield f"\n# {finding['kind']} {finding['acl_id']}: {one_line(finding['why'])}"
            yield from commands


def _field(value: Any) -> str:  # noqa: ANN401 - a column of any type
    if value is None:
        return ""
    return "\n".join(value) if isinstance(value, list) else str(value)
