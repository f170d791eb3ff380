"""ACLs as lines of `kafka-acls`, Kafka's own tool, for whoever mends by hand what a job found."""

import json
from collections.abc import Iterator, Mapping

import pyarrow as pa

from app.core.bindings import AclBinding
from app.core.kafka_acls import beyond_kafka_acls, kafka_acls_flags
from app.core.shell_words import shell_line
from app.pipeline.schemas import BINDING_FIELDS

_BOOTSTRAP = 'kafka-acls --bootstrap-server "$BOOTSTRAP"'


def add_command(acl: Mapping[str, str]) -> str:
    """The shell line that creates this ACL (its seven fields in Kafka's words).

    What kafka-acls can't say comes as a comment line with the entry of `createAcls` that does it.
    """
    return _command(acl, "--add", "POST /v1/acls with the binding")


def remove_command(acl: Mapping[str, str]) -> str:
    """The shell line that deletes this ACL and no other, without asking back. Comment lines as `add_command`."""
    return _command(acl, "--remove --force", "POST /v1/acls/delete with the filter")


def with_removals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: rows of ACLs with an empty last column `mend`, which becomes the command that removes each."""
    for batch in batches:
        columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in BINDING_FIELDS]
        mends = [[remove_command(dict(zip(BINDING_FIELDS, row, strict=True)))] for row in zip(*columns, strict=True)]
        at = batch.schema.get_field_index("mend")
        yield batch.set_column(at, "mend", pa.array(mends, pa.list_(pa.string())))


def _command(acl: Mapping[str, str], action: str, otherwise: str) -> str:
    binding = AclBinding.from_words(acl[name] for name in BINDING_FIELDS)
    reason = beyond_kafka_acls(binding)
    flags = shell_line(kafka_acls_flags(binding, with_defaults=True)) if reason is None else None
    if flags is None:
        entry = json.dumps({name: acl[name] for name in BINDING_FIELDS})
        return f"# not for kafka-acls ({reason}): {otherwise} {entry}"
    return f"{_BOOTSTRAP} {action} {flags}"
