"""ACLs as command lines: what to type so that `klamm acls` adds or removes just this one."""

import argparse
import shlex
from collections.abc import Sequence

from app.client.words import operation_word
from app.core.bindings import AclBinding
from app.core.codes import CLUSTER_NAME, WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.operations import supported_operations

_RESOURCES = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
_JAVA_TRIMS = "".join(map(chr, range(0x21)))
_SIMPLE_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def command_for(action: str, binding: AclBinding, access: Sequence[str] = ()) -> str | None:
    """`klamm acls --add ...` (or `--remove`) for this ACL, quoted for a shell; `access` are flags for the service.

    None where the flags, which are kafka-acls' own, have no way to say it: they trim names, and refuse operations that
    the resource type does not have.
    """
    if not _can_be_said(binding):
        return None
    kind = "allow" if binding.permission_type is AclPermissionType.ALLOW else "deny"
    flags = [f"--{action}", f"--{kind}-principal", binding.principal]
    if binding.host != WILDCARD:
        flags += [f"--{kind}-host", binding.host]
    flags += ["--operation", operation_word(binding.operation)]
    resource = _RESOURCES.get(binding.resource_type)
    flags += ["--cluster"] if resource is None else [resource, binding.resource_name]
    if binding.pattern_type is PatternType.PREFIXED:
        flags += ["--resource-pattern-type", "PREFIXED"]
    return " ".join(map(quoted, ("klamm", "acls", *access, *flags)))


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


def _can_be_said(binding: AclBinding) -> bool:
    words = (binding.resource_name, binding.principal, binding.host)
    if any(word != _trimmed(word) or not word for word in words):
        return False
    if binding.resource_type is ResourceType.CLUSTER:
        if (binding.pattern_type, binding.resource_name) != (PatternType.LITERAL, CLUSTER_NAME):
            return False
    elif binding.resource_type not in _RESOURCES:
        return False
    return binding.operation in (AclOperation.ALL, *supported_operations(binding.resource_type))


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


def _trimmed(text: str) -> str:
    """As Java's String.trim has it."""
    return text.strip(_JAVA_TRIMS)
