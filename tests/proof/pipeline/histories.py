"""Stores with a history, and what core makes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession

from app.core.continuity import KnownHistory
from app.core.image import ImageBuilder
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import Mutation
from app.core.records import GENESIS_HASH, ConfigRecord, FeedHead, Record
from app.formats.database_url import DatabaseUrl
from app.pipeline.history.export import records_of, whole_export
from app.pipeline.spark.storage import Home
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.pipeline_jobs import Fields
from tests.strategies import CONCRETE_OPERATIONS, CONCRETE_TYPES, HOSTS, NAMES, PRINCIPALS
from tests.updates import alter, create, delete

_CONFIGS = (("super.users", "User:root"), ("super.users", None), ("audit.level", "WARN"), ("max.staleness.ms", "60000"))


@dataclass(frozen=True)
class State:
    """What core makes of a beginning of a history."""

    acls: frozenset[Fields]
    configs: dict[str, str]


def random_group(draw: Random) -> list[Mutation]:
    """Updates of one transaction: several ACLs, removals, properties."""
    group: list[Mutation] = []
    for _ in range(draw.randint(1, 3)):
        what = draw.random()
        if what < 0.6:
            group.append(create(*(_binding(draw) for _ in range(draw.randint(1, 4)))))
        elif what < 0.85:
            group.append(delete(AclBindingFilter(resource_name=draw.choice(NAMES), principal=draw.choice(PRINCIPALS))))
        else:
            group.append(alter(draw.choice(_CONFIGS)))
    return group


async def write_history(dsn: str, seed: int, transactions: int) -> None:
    """So many random transactions more."""
    store, draw = PostgresAclStore(DatabaseUrl.parse(dsn)), Random(seed)
    for _ in range(transactions):
        await store.write(random_group(draw), KnownHistory())
    await store.close()


async def feed_records(dsn: str, after: int = 0) -> list[Record]:
    """All records behind this offset."""
    feed = PostgresChangeFeed(DatabaseUrl.parse(dsn))
    records: list[Record] = []
    while found := (await feed.poll(records[-1].offset if records else after, 1_000)).records:
        records += found
    await feed.close()
    return records


def states(records: Sequence[Record]) -> dict[int, State]:
    """The state after each transaction of a history that begins with offset 1, by its last offset; 0: before all."""
    builder = ImageBuilder(AuthorizerConfig())
    image = builder.build(FeedHead("any", _epoch(), 0, GENESIS_HASH, 1))
    ids = {record.acl.id for record in records if not isinstance(record, ConfigRecord)}
    found = {0: State(frozenset(), {})}
    start = 0
    while start < len(records):
        end = next(n for n in range(start, len(records)) if records[n].offset == records[n].tx_last) + 1
        image = image.apply(records[start:end])
        there = [acl for each in ids if (acl := image.index.get(each.bytes)) is not None]
        acls = frozenset((str(acl.id), *acl.binding.words) for acl in there)
        found[image.offset] = State(acls, dict(image.overrides))
        start = end
    return found


def exported_records(spark: SparkSession, home: Home) -> DataFrame:
    """schemas.RECORDS and `day`."""
    return records_of(spark, home, whole_export(spark, home)).drop("batch")


def _binding(draw: Random) -> AclBinding:
    return AclBinding(
        draw.choice(CONCRETE_TYPES[:3]),
        draw.choice(NAMES),
        draw.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        draw.choice(PRINCIPALS),
        draw.choice(HOSTS),
        draw.choice((AclOperation.READ, *CONCRETE_OPERATIONS)),
        draw.choice((AclPermissionType.ALLOW, AclPermissionType.DENY)),
    )


def _epoch() -> UUID:
    return UUID(int=1)
