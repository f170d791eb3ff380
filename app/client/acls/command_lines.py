"""ACLs as command lines: what to type so that `klamm acls` adds or removes just this one."""

import argparse
from collections.abc import Sequence

from app.core.kafka.acl_command import beyond_kafka_acls, kafka_acls_flags
from app.core.kafka.bindings import AclBinding
from app.formats.shell_words import shell_line


def command_for(action: str, binding: AclBinding, access: Sequence[str] = ()) -> str | None:
    """`klamm acls --add ...` (or `--remove`) for this ACL, for any POSIX shell; `access` are flags for the service.

    None where the flags, which are kafka-acls' own, have no way to say it: they trim names, and refuse operations that
    the resource type does not have. None, too, where the line would hold what can't be printed.
    """
    if beyond_kafka_acls(binding) is not None:
        return None
    return shell_line(["klamm", "acls", *access, f"--{action}", *kafka_acls_flags(binding, with_defaults=False)])


def access_flags(arguments: argparse.Namespace) -> list[str]:
    """The flags of `add_access_arguments` as they were given, so that a command reaches the same service."""
    given = {
        "--klamm": arguments.klamm,
        "--as": arguments.as_principal,
        "--command-config": arguments.command_config,
        "--token-file": arguments.token_file,
        "--ca": arguments.ca,
    }
    return [word for flag, value in given.items() if value is not None for word in (flag, value)]
