"""Commands that mend findings: lines of `klamm acls` or of kafka-acls, also as CSV and as a shell script.

Only this file decides what may be removed.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.core.kafka.acl_command import beyond_kafka_acls, kafka_acls_flags
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclPermissionType
from app.formats.acl_bodies import binding_body
from app.formats.arguments import one_line
from app.formats.csv_cells import csv_line
from app.formats.quoting import shell_line
from app.pipeline.history.schemas import FINDINGS

KLAMM, KAFKA_ACLS = "klamm", "kafka-acls"
TOOLS = (KLAMM, KAFKA_ACLS)
_ALLOW, _DENY = AclPermissionType.ALLOW, AclPermissionType.DENY

# Without the variable, `klamm acls` would change whatever service runs on this machine.
_BEGINNINGS: Final = {
    KLAMM: 'klamm acls --klamm "${KLAMM:?}"',
    KAFKA_ACLS: 'kafka-acls --bootstrap-server "${BOOTSTRAP:?}"',
}
_CALLED: Final = {KLAMM: "klamm acls", KAFKA_ACLS: "kafka-acls"}

# INVARIANT: no DENY is removed for lack of use. As long as all is well, nobody asks for what it forbids.
_REMOVABLE: Final[Mapping[str, Collection[AclPermissionType]]] = {
    "VOID": (_ALLOW,),
    "REDUNDANT": (_ALLOW, _DENY),
    "OVER_BROAD": (_ALLOW,),
    "UNUSED": (_ALLOW,),
    "DETACHED": (_ALLOW,),
}
"""By kind of finding: the permissions of ACLs that it may propose to remove."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Every command that removes an ACL needs one. Raises ValueError if the kind is no reason to remove such an ACL."""

    kind: str
    acl: AclBinding

    def __post_init__(self) -> None:
        if not may_propose(self.kind, self.acl.permission_type):
            raise ValueError(f"{self.kind} is not a reason to remove a {self.acl.permission_type.name}")


def may_propose(kind: str, permission_type: AclPermissionType) -> bool:
    return permission_type in _REMOVABLE.get(kind, ())


def add_command(acl: AclBinding, tool: str = KLAMM) -> str:
    """The shell line that creates this ACL; if the tool can't, a comment with the entry for `createAcls`."""
    return _command(acl, tool, "--add", "POST /v1/acls with the binding")


def remove_command(removal: Removal, tool: str = KLAMM) -> str:
    return _command(removal.acl, tool, "--remove --force", "POST /v1/acls/delete with the filter")


def mend_of(kind: str, acl: AclBinding, narrower: list[list[str]] | None, tool: str = KLAMM) -> list[str]:
    """The commands that mend a finding (FOUND), in order; none if no removal is proposed."""
    if narrower is None or not may_propose(kind, acl.permission_type):
        return []
    removal = remove_command(Removal(kind, acl), tool)
    added = [add_command(AclBinding.from_words(each), tool) for each in narrower]
    is_by_hand = any(command.startswith("#") for command in added)
    # INVARIANT: no command removes a broad ACL while any of the narrow ones is still to be made by hand.
    return [*added, f"# once the ACLs above exist: {removal}" if is_by_hand else removal]


def _command(acl: AclBinding, tool: str, action: str, otherwise: str) -> str:
    reason = beyond_kafka_acls(acl)
    flags = shell_line(kafka_acls_flags(acl, with_defaults=True)) if reason is None else None
    if flags is None:
        entry = json.dumps(binding_body(acl))
        return f"# not for {_CALLED[tool]} ({reason}): {otherwise} {entry}"
    return f"{_BEGINNINGS[tool]} {action} {flags}"


_HEAD = """\
#!/usr/bin/env bash
# Fixes what `klamm pipeline hygiene` found in cluster {cluster} at offset {offset}.
# READ IT FIRST, and delete the commands that you do not want. {variables}
set -euo pipefail
"""
_ABOUT_THE_TOOL: Final = {
    KLAMM: (
        """\
KLAMM is the URL of a Klamm; AS, if set, the principal
# for --as, and COMMAND_CONFIG a properties file (klamm acls --help).""",
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
    yield csv_line(FINDINGS.fieldNames())
    for finding in findings:
        yield csv_line([_field(finding[name]) for name in FINDINGS.fieldNames()])


def script_lines(findings: Iterable[Mapping[str, Any]], manifest: Mapping[str, Any]) -> Iterator[str]:
    variables, beginning = _ABOUT_THE_TOOL[manifest["tool"]]
    head = _HEAD.format(cluster=one_line(manifest["cluster_id"]), offset=manifest["offset"], variables=variables)
    yield head + beginning
    done: set[str] = set()
    for finding in findings:
        commands = [command for command in finding["mend"] if command not in done]
        done.update(commands)
        if commands:
            # A line end in the text would end the comment.
            yield f"\n# {finding['kind']} {finding['acl_id']}: {one_line(finding['why'])}"
            yield from commands


def _field(value: Any) -> str:  # noqa: ANN401 - a column of any type
    if value is None:
        return ""
    return "\n".join(value) if isinstance(value, list) else str(value)
