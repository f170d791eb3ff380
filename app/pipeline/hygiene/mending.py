"""Findings as files for whoever mends: CSV to look through, and a shell script to run once it was looked through."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from app.pipeline.history.schemas import FINDINGS
from app.pipeline.hygiene.kafka_acls import KAFKA_ACLS, KLAMM
from app.pipeline.spark.row_output import csv_line, one_line

_HEAD = """\
#!/usr/bin/env bash
# Mends what `klamm pipeline hygiene` found in cluster {cluster} at offset {offset}.
# READ IT FIRST, and delete what shall stay. {variables}
set -euo pipefail
"""
_ABOUT_THE_TOOL: Final = {
    KLAMM: (
        """\
KLAMM is the URL of a Klamm; AS, if set, the principal that
# asks, and COMMAND_CONFIG a file of properties (klamm acls --help).""",
        """\
: "${KLAMM:?set it to the URL of a Klamm, such as http://127.0.0.1:8080}"
klamm() { command klamm "$@" ${AS:+--as "$AS"} ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"}; }""",
    ),
    KAFKA_ACLS: (
        "BOOTSTRAP names a broker; COMMAND_CONFIG, if set, a properties file.",
        """\
: "${BOOTSTRAP:?set it to host:port of a broker}"
kafka-acls() { command kafka-acls ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} "$@"; }""",
    ),
}


def csv_lines(findings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The findings with a header line; several commands stand in one field, a line each."""
    yield csv_line(FINDINGS.fieldNames())
    for finding in findings:
        yield csv_line([_field(finding[name]) for name in FINDINGS.fieldNames()])


def script_lines(findings: Iterable[Mapping[str, Any]], manifest: Mapping[str, Any]) -> Iterator[str]:
    """A shell script with the commands of all findings; a command that several findings need stands once."""
    variables, beginning = _ABOUT_THE_TOOL[manifest["tool"]]
    head = _HEAD.format(cluster=one_line(manifest["cluster_id"]), offset=manifest["offset"], variables=variables)
    yield head + beginning
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
