"""`reconcile`: is the export the store's history, whole and unchanged, and does it add up to the store's tables?"""

import argparse
import os
from collections.abc import Iterator

from pyspark.sql import DataFrame

from app.pipeline.context import Job, JobContext
from app.pipeline.history.export import base_acls, measured, nothing_exported, records_of, refuse_other_history
from app.pipeline.history.folding import configs_after
from app.pipeline.history.manifests import Exported, read_exported
from app.pipeline.history.reconcile import (
    Check,
    check_acls,
    check_batches,
    check_chain,
    check_configs,
    check_manifests,
    follow_chain,
)
from app.pipeline.history.records import fold_acls
from app.pipeline.history.schemas import RECORDS
from app.pipeline.history.source import TableReading, ranges, read_head, read_records, read_table
from app.pipeline.spark.jdbc import JdbcSource, jdbc_source

_MOST_RANGES = 8


def add_arguments(_parser: argparse.ArgumentParser) -> None: ...


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    source = jdbc_source(arguments, os.environ)
    exported = read_exported(context.spark, context.home)
    if exported is None:
        raise nothing_exported(context.home.root)
    say, found = context.console.say, 0
    for check in _checks(context, source, exported):
        found += check.differences
        context.metrics.count("differences", check.differences)
        say(f"{check.name}: {check.summary}: {f'{check.differences} differences' if check.differences else 'ok'}")
        for example in check.examples:
            say(f"    {example}")
        if check.differences > len(check.examples):
            say(f"    and {check.differences - len(check.examples)} more")
    say("everything agrees" if not found else f"{found} differences")
    return 1 if found else 0


def _checks(context: JobContext, source: JdbcSource, exported: Exported) -> Iterator[Check]:
    spark, step = context.spark, context.console.step
    refuse_other_history(exported, read_head(spark, source, exported.last_offset))
    yield check_manifests(exported)
    records = records_of(spark, context.home, exported)
    with step("counting what was exported"):
        facts = measured(records)
    yield check_batches(exported, facts)
    context.metrics.count("records_read", sum(each.rows for each in facts.values()))
    with step("reading the tables"):
        table = read_table(spark, source)
    tail = _tail(context, source, exported, table)
    everything = records.select(RECORDS.fieldNames()).unionByName(tail)
    with step("following the hash chain"):
        chain = follow_chain(everything, exported.start_offset, exported.start_hash)
    yield check_chain(chain)
    yield _check_end(exported, table, tail, chain.checked)
    with step("comparing the ACLs"):
        folded = fold_acls(everything, base_acls(spark, context.home, exported))
        yield check_acls(folded, table.acls, table.head.last_offset)
    configs = dict(exported.base.configs) if exported.base is not None else {}
    yield check_configs(configs_after(configs, everything), table.configs, table.head.last_offset)


def _tail(context: JobContext, source: JdbcSource, exported: Exported, table: TableReading) -> DataFrame:
    after, through = exported.last_offset, table.head.last_offset
    refuse_other_history(exported, read_head(context.spark, source, after))
    if through == after:
        return context.spark.createDataFrame([], RECORDS)
    return read_records(context.spark, source, ranges(after, through, _MOST_RANGES))


def _check_end(exported: Exported, table: TableReading, tail: DataFrame, checked: int) -> Check:
    through = table.head.last_offset
    summary = f"offset {through}, {through - exported.last_offset} records not exported yet"
    last = exported.hash
    if through > exported.last_offset:
        row = tail.where(f"offset = {through}").select("hash").first()
        last = b"" if row is None else bytes(row["hash"])
    faults = [] if last == table.head.hash else ["the last record is not the one that the store's head names"]
    wanted = through - exported.start_offset
    if checked != wanted:
        faults.append(f"{checked} records lead to it; expected {wanted}")
    return Check("head", summary, len(faults), faults)


JOB = Job(
    "reconcile",
    "compare the export with the store, and follow its hash chain; exit code 1 if anything differs",
    add_arguments,
    run,
    check_home=lambda _, home: home.export(),
    database="always",
    writes_home=False,
)
