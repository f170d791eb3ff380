"""`what`: all that one principal can do."""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.core.access.host_keys import client_key, host_key
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation
from app.core.kafka.hosts import ClientAddress
from app.formats.arguments import whole_number
from app.pipeline.access.effective import EffectiveTables, expanded, load_effective
from app.pipeline.access.lookup import Acl, Answer, closest, mask_of, operation_words
from app.pipeline.access.patterns import RESOURCE
from app.pipeline.context import Job, JobContext
from app.pipeline.history.schemas import INT_MAX
from app.pipeline.history.snapshot import load_snapshot
from app.pipeline.jobs.inputs import (
    add_host,
    add_offset,
    add_super_users,
    few,
    principal_name,
    snapshot_is_there,
    super_users_of,
)
from app.pipeline.spark.row_output import Row, add_output

_COLUMNS = ("kind", "resource_type", "resource_name", "host", "operations", "denied", "by")
_SHOWN = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("principal", metavar="PRINCIPAL", type=principal_name, help="such as User:alice")
    add_host(parser)
    parser.add_argument(
        "--limit", type=whole_number(1, INT_MAX), default=_SHOWN, metavar="N", help=f"at most N resources ({_SHOWN})"
    )
    add_super_users(parser)
    add_offset(parser)
    add_output(parser)


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    principal, address, console = arguments.principal, arguments.host, context.console
    snapshot = load_snapshot(context.spark, context.home, arguments.offset)
    tables = load_effective(context.spark, context.home, snapshot.offset)
    of_principal = sf.col("principal").isin(principal, WILDCARD_PRINCIPAL)
    with console.step(f"reading the ACLs at offset {snapshot.offset:,}"):
        rows = list(_patterns(few(snapshot.in_effect.where(of_principal)), address))
    supers = super_users_of(snapshot.configs, arguments.super_users)
    if principal in supers.names:
        rows.insert(0, ("SUPER_USER", "ANY", WILDCARD, WILDCARD, [AclOperation.ALL.name], [], supers.named_by))
    if tables is not None:
        with console.step("folding them over the resources"):
            rows += _resources(tables, principal, address, arguments.limit)
    console.rows(_COLUMNS, rows, arguments.output)
    if principal in supers.names:
        console.note(f"{principal} is a super user: everything is allowed, regardless of ACLs")
    elif snapshot.config.allow_everyone_if_no_acl_found:
        console.note(
            "resources without ACLs are not listed: everyone is allowed on them (allow.everyone.if.no.acl.found)"
        )
    if supers.note:
        console.note(supers.note)
    if tables is None:
        console.note("resources are listed once `klamm pipeline effective` has run at this offset")
    return 0


def _patterns(acls: Iterable[Acl], address: ClientAddress | None) -> Iterator[Row]:
    key = None if address is None else client_key(address)
    masks: dict[tuple[str, str, str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for acl in acls:
        if key is None or key.startswith(host_key(acl["host"])):
            mask = mask_of(acl)
            place = (acl["resource_type"], acl["resource_name"], acl["pattern_type"], acl["host"], acl["principal"])
            sides = masks[place]
            sides[0] |= mask.allow_mask
            sides[1] |= mask.deny_mask
    for (resource_type, name, pattern_type, host, principal), (allow, deny) in sorted(masks.items()):
        allowed, denied = operation_words(allow, resource_type), operation_words(deny, resource_type)
        yield pattern_type, resource_type, name, host, allowed, denied, principal


def _resources(tables: EffectiveTables, principal: str, address: ClientAddress | None, limit: int) -> Iterator[Row]:
    answers = _answers(tables, principal)
    if address is None:
        rows = answers.orderBy(*RESOURCE, "host").limit(limit).collect()
        found = [(row[0], row[1], Answer(*row[2:])) for row in rows]
    else:
        # A resource has a row for each host, of which one answers. So the limit is applied to resources here.
        names = answers.select(*RESOURCE).distinct().orderBy(*RESOURCE).limit(limit)
        by_resource = defaultdict(list)
        for row in answers.join(sf.broadcast(names), list(RESOURCE)).collect():
            by_resource[row[0], row[1]].append(Answer(*row[2:]))
        found = [(*at, each) for at, all_of in sorted(by_resource.items()) for each in closest(all_of, address)]
    for resource_type, name, answer in found:
        words = [operation_words(mask, resource_type) for mask in (answer.effective_mask, answer.deny_mask)]
        if any(words):
            yield "RESOURCE", resource_type, name, answer.host, *words, principal


def _answers(tables: EffectiveTables, principal: str) -> DataFrame:
    """The expanded rows of this principal. Its ACLs and those of `User:*` are treated as one principal's."""
    masks = tables.masks.where(sf.col("principal").isin(principal, WILDCARD_PRINCIPAL))
    return expanded(tables.nodes, masks.withColumn("principal", sf.lit(WILDCARD_PRINCIPAL)))


JOB = Job(
    "what",
    "what a principal can do: by pattern, and by resource once `effective` has run",
    add_arguments,
    run,
    check_home=snapshot_is_there,
    writes_home=False,
)
