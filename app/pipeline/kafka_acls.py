"""ACLs as lines of `kafka-acls`, Kafka's own tool, for whoever mends by hand what a job found."""

import json
import shlex
from collections.abc import Iterator, Mapping

import pyarrow as pa

from app.core.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.operations import supported_operations
from app.pipeline.schemas import BINDING_FIELDS

_BOOTSTRAP = 'kafka-acls --bootstrap-server "$BOOTSTRAP"'
_RESOURCE_FLAGS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
_JAVA_TRIMS = "".join(map(chr, range(0x21)))


def add_command(acl: Mapping[str, str]) -> str:
    """The shell line that creates this ACL (its seven fields in Kafka's words).

    What kafka-acls can't say comes as a comment line with the entry of `createAcls` that does it.
    """
    reason = _beyond_the_tool(acl)
    if reason is not None:
        return _by_klamm(acl, reason, "POST /v1/acls with the binding")
    return f"{_BOOTSTRAP} --add {_fields(acl)}"


def remove_command(acl: Mapping[str, str]) -> str:
    """The shell line that deletes this ACL and no other, without asking back. Comment lines as `add_command`."""
    reason = _beyond_the_tool(acl)
    if reason is not None:
        return _by_klamm(acl, reason, "POST /v1/acls/delete with the filter")
    return f"{_BOOTSTRAP} --remove --force {_fields(acl)}"


def with_removals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: rows of ACLs with an empty last column `mend`, which becomes the command that removes each."""
    for batch in batches:
        columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in BINDING_FIELDS]
        mends = [[remove_command(dict(zip(BINDING_FIELDS, row, strict=True)))] for row in zip(*columns, strict=True)]
        at = batch.schema.get_field_index("mend")
        yield batch.set_column(at, "mend", pa.array(mends, pa.list_(pa.string())))


def _fields(acl: Mapping[str, str]) -> str:
    side = "allow" if acl["permission_type"] == AclPermissionType.ALLOW.name else "deny"
    words = [f"--{side}-principal", acl["principal"], f"--{side}-host", acl["host"]]
    words += ["--operation", _operation(acl["operation"])]
    flag = _RESOURCE_FLAGS.get(ResourceType.from_string(acl["resource_type"]))
    words += ["--cluster"] if flag is None else [flag, acl["resource_name"]]
    words += ["--resource-pattern-type", acl["pattern_type"]]
    return shlex.join(words)


def _operation(word: str) -> str:
    """As the tool's help spells it: DESCRIBE_CONFIGS is DescribeConfigs."""
    return "".join(part.capitalize() for part in word.split("_"))


def _beyond_the_tool(acl: Mapping[str, str]) -> str | None:
    """Why kafka-acls (4.4.0) can't name this ACL, or would name another one; None if it can."""
    # The tool trims what it is given, so that a command could hit the neighbour without the blanks.
    for name in ("resource_name", "principal", "host"):
        if acl[name] != acl[name].strip(_JAVA_TRIMS):
            return f"it trims the {name.replace('_', ' ')}"
    resource_type, operation = ResourceType.from_string(acl["resource_type"]), AclOperation[acl["operation"]]
    if resource_type is ResourceType.CLUSTER and acl["pattern_type"] != PatternType.LITERAL.name:
        return "it knows no prefixed cluster"
    if operation is not AclOperation.ALL and operation not in supported_operations(resource_type):
        return f"it refuses {operation.name} on {resource_type.name}"
    return None


def _by_klamm(acl: Mapping[str, str], reason: str, call: str) -> str:
    entry = json.dumps({name: acl[name] for name in BINDING_FIELDS})
    return f"# not for kafka-acls ({reason}): {call} {entry}"
