"""The commands by name: for `klamm --help`, and for who misspells one, without loading any of them."""

from collections.abc import Mapping
from types import MappingProxyType

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "acls": "list, add and remove ACLs with the options of kafka-acls",
        "why": "say why somebody is allowed or denied something, and what would change it",
        "export": "write the ACLs of a running service, in a format of others",
        "plan": "show what `apply` would do with files of ACLs, and who would gain and lose access",
        "apply": "make the ACLs those of files, after showing what that means",
    }
)
"""Those of this room, each with what it does."""

OTHERS: Mapping[str, str] = MappingProxyType(
    {
        "serve": "serve the REST API until SIGTERM or Ctrl-C",
        "migrate": "bring the database's schema to this version",
        "import": "add a file's ACLs to the store, or to a running service",
        "token": "make a token for a caller",
        "pipeline": "run a job of the Spark pipeline (extra `spark`): export, hygiene, what-if, ...",
        "openapi": "write the OpenAPI description of the REST API",
    }
)
"""Those of other rooms."""

MEANT: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in (*COMMANDS, *OTHERS)},
        "list": "acls --list",
        "add": "acls --add",
        "remove": "acls --remove",
        "delete": "acls --remove",
        "explain": "why",
        "start": "serve",
        "authorize": "why",
    }
)
"""What is meant by a word: a command's own name, or one that other tools have for it."""
