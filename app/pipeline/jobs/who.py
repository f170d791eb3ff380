"""`who`: which principals can do what on one resource, and by which ACLs."""

import argparse
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.core.kafka.codes import WILDCARD, AclOperation, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig, parse_configs
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import ClientAddress, parse_address
from app.core.kafka.operations import supported_operations
from app.pipeline.access.super_users import SuperUsers, parse_super_users, super_users
from app.pipeline.access.who_and_what import parse_resource, who_can
from app.pipeline.context import JobContext
from app.pipeline.history.snapshot import Snapshot, load_snapshot
from app.pipeline.jobs.inputs import add_offset, needs_snapshot
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.parsing import told_by
from app.pipeline.spark.row_output import Row, add_output, lines_of

NAME = "who"
HELP = "who can do what on a resource, and by which ACLs"

COLUMNS = ("principal", "host", "operations", "denied", "by")
MOST_ACLS = 100_000
"""How many ACLs one question is answered from; more are for `effective --expanded`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The question."""
    parser.add_argument(
        "resource",
        metavar="RESOURCE",
        type=told_by(parse_resource),
        help="such as topic:orders; what follows the colon is the name",
    )
    parser.add_argument(
        "--operation",
        metavar="OPERATION",
        type=told_by(operation_of),
        help="only who is allowed or denied this, such as READ",
    )
    add_host(parser)
    add_super_users(parser)
    add_offset(parser)
    add_output(parser)
    needs_snapshot(parser)


def add_host(parser: argparse.ArgumentParser) -> None:
    """From where a client asks."""
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        type=told_by(address_of),
        help="only what holds for a client at this address",
    )


def add_super_users(parser: argparse.ArgumentParser) -> None:
    """Whom the service is started with."""
    parser.add_argument(
        "--super-users",
        metavar="PRINCIPALS",
        type=told_by(parse_super_users),
        help="super.users that the service is started with, such as User:alice;User:bob: they are in no store, and "
        "count unless others are stored",
    )


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    """Print a row for each principal and host."""
    (resource_type, name), operation = arguments.resource, arguments.operation
    snapshot = load_snapshot(context.spark, context.home, arguments.offset)
    with context.console.step(f"reading the ACLs at offset {snapshot.offset:,}"):
        acls = few(_on(snapshot.acls, resource_type, name))
    context.metrics.count("acls_read", len(acls))
    config, supers = config_of(snapshot), super_users(snapshot.configs, arguments.super_users)
    # What ACLs say of a super user takes no effect.
    others = (each for each in who_can(acls, resource_type, arguments.host, operation) if each[0] not in supers.names)
    rows: list[Row] = [*_super_users(supers, resource_type, operation), *others]
    for line in lines_of(COLUMNS, rows, arguments.output):
        context.console.say(line)
    if supers.note:
        context.console.note(supers.note)
    if not acls:
        allowed = "everyone is allowed" if config.allow_everyone_if_no_acl_found else "nobody else is allowed"
        context.console.note(f"no ACL is on it, so {allowed} (allow.everyone.if.no.acl.found, as far as it is stored)")
    return 0


def few(acls: DataFrame) -> list[dict[str, str]]:
    """These ACLs, if they can be looked at in one place. Raises PipelineError if they are too many."""
    rows = [row.asDict() for row in acls.limit(MOST_ACLS + 1).collect()]
    if len(rows) > MOST_ACLS:
        raise PipelineError(
            f"more than {MOST_ACLS:,} ACLs speak of it, too many for one answer; run `klamm pipeline effective "
            "--expanded` and query its table"
        )
    return rows


def config_of(snapshot: Snapshot) -> AuthorizerConfig:
    """The stored configuration; what was only given at start-up is not known to a snapshot."""
    return parse_configs(dict(snapshot.configs))


def operation_of(word: str) -> str:
    """The operation's name. Raises PipelineError if it is none."""
    operation = AclOperation.from_string(word.upper().replace("-", "_"))
    if operation <= AclOperation.ALL:
        known = ", ".join(each.name for each in AclOperation if each > AclOperation.ALL)
        raise PipelineError(f"`{word}` is no operation that is asked for; known are {known}")
    return operation.name


def address_of(text: str) -> ClientAddress:
    """The client's address. Raises PipelineError if it is none."""
    try:
        return parse_address(text)
    except InvalidRequestException:
        raise PipelineError(f"`{text}` is no address; write one such as 10.1.2.3 or 2001:db8::1") from None


def _on(acls: DataFrame, resource_type: str, name: str) -> DataFrame:
    pattern = sf.col("resource_name")
    literal = (sf.col("pattern_type") == PatternType.LITERAL.name) & pattern.isin(name, WILDCARD)
    prefixed = (sf.col("pattern_type") == PatternType.PREFIXED.name) & sf.lit(name).startswith(pattern)
    return acls.where((sf.col("resource_type") == resource_type) & (literal | prefixed))


def _super_users(supers: SuperUsers, resource_type: str, operation: str | None) -> Iterator[Row]:
    operations = [each.name for each in supported_operations(ResourceType[resource_type])]
    if operation is None or operation in operations:
        for principal in sorted(supers.names):
            yield principal, WILDCARD, operations, [], [supers.named_by]
