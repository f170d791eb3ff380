"""Commands for whoever mends by hand what a job found: lines of `klamm acls`, or of kafka-acls, which has its flags.

What may be removed at all is decided here and nowhere else.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from app.core.kafka.acl_command import beyond_kafka_acls, kafka_acls_flags
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclPermissionType
from app.formats.shell_words import shell_line

KLAMM, KAFKA_ACLS = "klamm", "kafka-acls"
TOOLS = (KLAMM, KAFKA_ACLS)

_ALLOW, _DENY = AclPermissionType.ALLOW, AclPermissionType.DENY

# Without the variable `klamm acls` would change whatever runs on this machine.
_BEGINNINGS: Final = {
    KLAMM: 'klamm acls --klamm "${KLAMM:?}"',
    KAFKA_ACLS: 'kafka-acls --bootstrap-server "${BOOTSTRAP:?}"',
}
_CALLED: Final = {KLAMM: "klamm acls", KAFKA_ACLS: "kafka-acls"}

# INVARIANT: a DENY never goes for lack of use. What it forbids is not asked for as long as all goes well.
_REMOVABLE: Final[Mapping[str, frozenset[AclPermissionType]]] = MappingProxyType(
    {
        "VOID": frozenset({_ALLOW}),
        "REDUNDANT": frozenset({_ALLOW, _DENY}),
        "OVER_BROAD": frozenset({_ALLOW}),
        "UNUSED": frozenset({_ALLOW}),
        "DETACHED": frozenset({_ALLOW}),
    }
)
"""Whose removal a finding of each kind may propose."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A removal that may be proposed. No command that removes an ACL is made without one.

    Raises ValueError where a finding of this kind is no reason to remove such an ACL.
    """

    kind: str
    acl: AclBinding

    def __post_init__(self) -> None:
        if not may_propose(self.kind, self.acl.permission_type):
            raise ValueError(f"{self.kind} is no reason to remove a {self.acl.permission_type.name}")


def may_propose(kind: str, permission_type: AclPermissionType) -> bool:
    """Whether a finding of this kind may propose to remove an ACL that allows or denies."""
    return permission_type in _REMOVABLE.get(kind, ())


def add_command(acl: AclBinding, tool: str = KLAMM) -> str:
    """The shell line that creates this ACL.

    What the tool can't say comes as a comment line with the entry of `createAcls` that does it.
    """
    return _command(acl, tool, "--add", "POST /v1/acls with the binding")


def remove_command(removal: Removal, tool: str = KLAMM) -> str:
    """The shell line that deletes this ACL and no other, without asking back. Comment lines as `add_command`."""
    return _command(removal.acl, tool, "--remove --force", "POST /v1/acls/delete with the filter")


def mend_of(kind: str, acl: AclBinding, narrower: list[list[str]] | None, tool: str = KLAMM) -> list[str]:
    """The commands that mend a finding, in order; none where nothing is proposed.

    `narrower` are the fields of ACLs that take the place of an OVER_BROAD one.
    """
    if not may_propose(kind, acl.permission_type):
        return []
    removal = remove_command(Removal(kind, acl), tool)
    if kind != "OVER_BROAD":
        return [removal]
    if narrower is None:
        return []
    added = [add_command(AclBinding.from_words(each), tool) for each in narrower]
    is_by_hand = any(command.startswith("#") for command in added)
    # INVARIANT: nothing broad is removed by a command as long as anything narrow is to be made by hand.
    return [*added, f"# once those above are there: {removal}" if is_by_hand else removal]


def _command(acl: AclBinding, tool: str, action: str, otherwise: str) -> str:
    reason = beyond_kafka_acls(acl)
    flags = shell_line(kafka_acls_flags(acl, with_defaults=True)) if reason is None else None
    if flags is None:
        entry = json.dumps(dict(zip(AclBinding.__dataclass_fields__, acl.words, strict=True)))
        return f"# not for {_CALLED[tool]} ({reason}): {otherwise} {entry}"
    return f"{_BEGINNINGS[tool]} {action} {flags}"
