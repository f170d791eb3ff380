"""`who`: which principals can do what on one resource, and by which ACLs."""

import argparse
from collections.abc import Iterable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.core.groups import exclude_groups
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation, ResourceType
from app.core.kafka.operations import supported_operations
from app.pipeline.access.lookup import Access, parse_resource, who_can
from app.pipeline.access.patterns import LITERAL, PREFIXED
from app.pipeline.context import Job, JobContext
from app.pipeline.history.snapshot import load_snapshot
from app.pipeline.jobs.inputs import (
    SuperUsers,
    add_host,
    add_offset,
    add_super_users,
    few,
    snapshot_is_there,
    super_users_of,
)
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.row_output import Row, add_output

_COLUMNS = ("principal", "host", "operations", "denied", "by")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "resource",
        metavar="RESOURCE",
        type=parse_resource,
        help="such as topic:orders; what follows the colon is the name",
    )
    parser.add_argument(
        "--operation",
        metavar="OPERATION",
        type=_operation,
        help="only principals that are allowed or denied this operation, such as READ",
    )
    add_host(parser)
    add_super_users(parser)
    add_offset(parser)
    add_output(parser)


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    (resource_type, name), operation = arguments.resource, arguments.operation
    snapshot = load_snapshot(context.spark, context.home, arguments.offset)
    with context.console.step(f"reading the ACLs at offset {snapshot.offset:,}"):
        acls = few(_on(snapshot.in_effect, resource_type, name))
    context.metrics.count("acls_read", len(acls))
    supers = super_users_of(snapshot.configs, arguments.super_users)
    found = who_can(acls, resource_type, arguments.host, operation)
    without_rows = exclude_groups(supers.names)
    others = [each for each in found if each.principal not in without_rows]
    rows = _told_once(others) if arguments.output == "table" else map(_told_each_time, others)
    context.console.rows(_COLUMNS, [*_rows_of(supers, resource_type, operation), *rows], arguments.output)
    if supers.note:
        context.console.note(supers.note)
    if not acls:
        is_open = snapshot.config.allow_everyone_if_no_acl_found
        allowed = "everyone is allowed" if is_open else "nobody else is allowed"
        context.console.note(f"it has no ACLs, so {allowed} (allow.everyone.if.no.acl.found, as far as it is stored)")
    return 0


def _operation(word: str) -> str:
    operation = AclOperation.from_string(word.upper().replace("-", "_"))
    if operation <= AclOperation.ALL:
        known = ", ".join(each.name for each in AclOperation if each > AclOperation.ALL)
        raise PipelineError(f"`{word}` is not an operation that can be requested; known are {known}")
    return operation.name


def _on(acls: DataFrame, resource_type: str, name: str) -> DataFrame:
    pattern = sf.col("resource_name")
    literal = (sf.col("pattern_type") == LITERAL) & pattern.isin(name, WILDCARD)
    prefixed = (sf.col("pattern_type") == PREFIXED) & sf.lit(name).startswith(pattern)
    return acls.where((sf.col("resource_type") == resource_type) & (literal | prefixed))


def _rows_of(supers: SuperUsers, resource_type: str, operation: str | None) -> Iterator[Row]:
    operations = [each.name for each in supported_operations(ResourceType[resource_type])]
    if operation is None or operation in operations:
        for principal in sorted(supers.names):
            yield principal, WILDCARD, operations, [], [supers.named_by]


def _told_each_time(access: Access) -> Row:
    return access.principal, access.host, access.operations, access.denied, [*access.own, *access.shared]


def _told_once(accesses: Iterable[Access]) -> Iterator[Row]:
    """For people: an ACL of `User:*`, which counts in every row, is listed only in the first."""
    told = set[str]()
    for each in accesses:
        new = [acl for acl in each.shared if acl not in told]
        told.update(new)
        again = len(each.shared) - len(new)
        by = [*each.own, *new, *([f"{again:,} of {WILDCARD_PRINCIPAL}, see above"] if again else [])]
        yield each.principal, each.host, each.operations, each.denied, "; ".join(by)


JOB = Job(
    "who",
    "who can do what on a resource, and by which ACLs",
    add_arguments,
    run,
    check_home=snapshot_is_there,
    writes_home=False,
)
