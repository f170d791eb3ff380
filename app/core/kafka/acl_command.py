"""An ACL in the flags of kafka-acls, Kafka's own tool (AclCommand of Kafka 4.4), and what that tool can't express."""

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import CLUSTER_NAME, WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.operations import supported_operations

_RESOURCE_FLAGS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
_JAVA_TRIMS = "".join(map(chr, range(0x21)))


def beyond_kafka_acls(binding: AclBinding) -> str | None:
    """Why no command of the tool names exactly this ACL; None if one does."""
    for field in ("resource_name", "principal", "host"):
        text: str = getattr(binding, field)
        # It trims all but transactional ids, so a command could hit the name without the blanks.
        kept = field == "resource_name" and binding.resource_type is ResourceType.TRANSACTIONAL_ID
        is_trimmed = not text or (not kept and text != text.strip(_JAVA_TRIMS))
        if is_trimmed or not text.isprintable():
            return f"{'it trims' if is_trimmed else 'no command line can show'} the {field.replace('_', ' ')}"
    if binding.resource_type is ResourceType.CLUSTER:
        if binding.pattern_type is not PatternType.LITERAL:
            return "it does not support a prefixed cluster"
        if binding.resource_name != CLUSTER_NAME:
            return f"it supports no cluster but {CLUSTER_NAME}"
    elif binding.resource_type not in _RESOURCE_FLAGS:
        return f"it does not support {binding.resource_type.name}"
    if binding.operation not in (AclOperation.ALL, *supported_operations(binding.resource_type)):
        return f"it refuses {binding.operation.name} on {binding.resource_type.name}"
    return None


def kafka_acls_flags(binding: AclBinding, *, with_defaults: bool) -> list[str]:
    """The words that name the ACL after `--add` or `--remove`, for an ACL with `beyond_kafka_acls` None.

    Without defaults the host `*` and the pattern type LITERAL are left out.
    """
    side = "allow" if binding.permission_type is AclPermissionType.ALLOW else "deny"
    words = [f"--{side}-principal", binding.principal]
    if with_defaults or binding.host != WILDCARD:
        words += [f"--{side}-host", binding.host]
    words += ["--operation", binding.operation.camel_case]
    flag = _RESOURCE_FLAGS.get(binding.resource_type)
    words += ["--cluster"] if flag is None else [flag, binding.resource_name]
    if with_defaults or binding.pattern_type is not PatternType.LITERAL:
        words += ["--resource-pattern-type", binding.pattern_type.name]
    return words
