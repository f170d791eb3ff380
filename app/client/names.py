"""The commands of this room by name, each with what it does: for `klamm --help`, which loads none of them."""

from collections.abc import Mapping
from types import MappingProxyType

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "acls": "list, add and remove ACLs with the options of kafka-acls",
        "why": "say why somebody is allowed or denied something, and what would change it",
        "export": "write the ACLs of a running service, in a format of others",
        "plan": "show what `apply` would do with a file of ACLs, and who would gain and lose access",
        "apply": "make the ACLs those of a file, after showing what that means",
    }
)
