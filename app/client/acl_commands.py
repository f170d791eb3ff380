"""ACLs as command lines: what to type so that `klamm acls` adds or removes just this one."""

import argparse
import shlex
from collections.abc import Sequence

from app.core.bindings import AclBinding
from app.core.kafka_acls import beyond_kafka_acls, kafka_acls_flags

_SIMPLE_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def command_for(action: str, binding: AclBinding, access: Sequence[str] = ()) -> str | None:
    """`klamm acls --add ...` (or `--remove`) for this ACL, quoted for a shell; `access` are flags for the service.

    None where the flags, which are kafka-acls' own, have no way to say it: they trim names, and refuse operations that
    the resource type does not have.
    """
    if beyond_kafka_acls(binding) is not None:
        return None
    words = ("klamm", "acls", *access, f"--{action}", *kafka_acls_flags(binding, with_defaults=False))
    return " ".join(map(quoted, words))


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


def quoted(word: str) -> str:
    """The word for a shell; what can't be printed comes as an escape between `$'` and `'`, as bash and zsh have it."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(character: str) -> str:
    simple = _SIMPLE_ESCAPES.get(character)
    if simple is not None:
        return simple
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogatepass"))
