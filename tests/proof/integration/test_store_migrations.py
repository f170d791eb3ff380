"""The schema: made, undone and made again, by many at once, and the views that others read."""

import asyncio
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

import migrations
from app.core.continuity import KnownHistory
from app.core.digest import MODULUS, config_digest, digest_of
from app.core.kafka.bindings import NewAcl, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import InconsistentClusterIdException, StoreUnavailableException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import CreateAcls
from app.core.records import GENESIS_HASH, record_hash
from app.formats.database_url import DatabaseUrl
from app.store import migrate as migrate_module
from app.store.engine import Connection
from app.store.migrate import downgrade, migrate
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.updates import ACTOR, alter, create, created, delete, topic

RECORD_COLUMNS = [
    "offset",
    "tx_last",
    "kind",
    "acl_id",
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
    "config_name",
    "config_value",
    "recorded_at",
    "actor",
    "hash",
]


async def tables(database_url: str) -> set[str]:
    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")
    await connection.close()
    return {row["relname"] for row in rows} - {"alembic_version", "alembic_version_pkc"}


async def test_a_store_is_born_with_an_empty_head(database_url: str) -> None:
    await migrate(DatabaseUrl.parse(database_url))

    feed = PostgresChangeFeed(DatabaseUrl.parse(database_url))
    head = (await feed.poll(0, 1)).head
    assert (head.last_offset, head.hash, head.log_start_offset) == (0, GENESIS_HASH, 1)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", head.cluster_id)
    assert head.epoch != UUID(int=0)
    await migrate(DatabaseUrl.parse(database_url))
    assert (await feed.poll(0, 1)).head == head
    await feed.close()


async def test_the_cluster_id_is_fixed_at_birth(database_url: str) -> None:
    await migrate(DatabaseUrl.parse(database_url), cluster_id="MkU3OEVBNTcwNTJENDM2Qg")
    await migrate(DatabaseUrl.parse(database_url))
    await migrate(DatabaseUrl.parse(database_url), cluster_id="MkU3OEVBNTcwNTJENDM2Qg")

    with pytest.raises(InconsistentClusterIdException, match="belongs to cluster `MkU3OEVBNTcwNTJENDM2Qg`"):
        await migrate(DatabaseUrl.parse(database_url), cluster_id="other")


async def test_up_down_and_up_again(database_url: str) -> None:
    await migrate(DatabaseUrl.parse(database_url))
    there = await tables(database_url)
    assert {"acl_head", "acl", "acl_record", "config", "code_name"} <= there
    assert {"acl_v1", "acl_record_v1", "acl_head_v1", "config_v1", "acl_v2", "acl_record_v2", "acl_head_v2"} <= there
    await downgrade(DatabaseUrl.parse(database_url), "base")
    assert await tables(database_url) == set()
    await migrate(DatabaseUrl.parse(database_url))
    assert await tables(database_url) == there


async def test_four_at_once_on_an_empty_database(database_url: str) -> None:
    await asyncio.gather(*[migrate(DatabaseUrl.parse(database_url), cluster_id="same") for _ in range(4)])

    feed = PostgresChangeFeed(DatabaseUrl.parse(database_url))
    assert (await feed.poll(0, 1)).head.cluster_id == "same"
    await feed.close()


async def test_two_processes_at_once_on_an_empty_database(database_url: str) -> None:
    script = (
        "import asyncio; from app.formats.database_url import DatabaseUrl; from app.store.migrate import migrate; "
        f"asyncio.run(migrate(DatabaseUrl.parse({database_url!r})))"
    )
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", script, stderr=subprocess.PIPE) for _ in range(2)
    ]
    said = [(await process.communicate())[1] for process in processes]

    assert said == [b"", b""]
    assert "acl_head" in await tables(database_url)


async def test_alembic_itself_can_be_run_on_a_url(store_url: str) -> None:
    root = Path(__file__).parents[3]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "alembic", "-x", f"database_url={store_url}", "check"),
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = await process.communicate()

    assert b"No new upgrade operations detected" in said


def test_migrations_are_named_by_their_day() -> None:
    names = [path.stem for path in Path(migrations.__path__[0], "versions").glob("*.py") if path.stem != "__init__"]

    assert names
    assert all(re.fullmatch(r"20\d\d_[01]\d_[0-3]\d_[a-z0-9_]+", name) for name in names)


async def test_a_database_of_another_encoding_is_refused(database_url: str, database: Connection) -> None:
    name = f"{database_url.rpartition('/')[2]}_latin"
    await database.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(StoreUnavailableException, match="encoding UTF8"):
            await migrate(DatabaseUrl.parse(f"{database_url}_latin"))
    finally:
        await database.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_lock_on_the_tables_is_not_waited_for_without_bound(store_url: str, database: Connection) -> None:
    async with database.transaction():
        await database.execute("LOCK TABLE acl IN ACCESS SHARE MODE")
        with pytest.raises(StoreUnavailableException, match="another writer"):
            await downgrade(DatabaseUrl.parse(store_url), "base")

    assert "acl" in await tables(store_url)


async def test_a_migration_elsewhere_that_never_ends_is_not_waited_for_without_bound(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await asyncpg.connect(database_url)
    await other.execute("SELECT pg_advisory_lock($1)", migrate_module._LOCK_KEY)
    monkeypatch.setattr(migrate_module, "_LOCK_PATIENCE_S", 0.2)

    with pytest.raises(StoreUnavailableException, match="another process"):
        await migrate(DatabaseUrl.parse(database_url))

    await other.close()
    await migrate(DatabaseUrl.parse(database_url))


async def test_an_unreachable_database_is_an_outage() -> None:
    with pytest.raises(StoreUnavailableException):
        await migrate(DatabaseUrl.parse("postgresql://klamm:planted@127.0.0.1:1/klamm"))


async def test_the_views_speak_kafkas_words(store: PostgresAclStore, database: Connection) -> None:
    outcome = await store.write(
        [create(topic("orders", pattern_type=PatternType.PREFIXED)), alter(("a", "b"))], KnownHistory()
    )
    (made,) = created(outcome.outcomes[0])
    await store.write([delete(AclBindingFilter(resource_name="orders")), create(topic("payments"))], KnownHistory())

    rows = [dict(row) for row in await database.fetch('SELECT * FROM acl_record_v1 ORDER BY "offset"')]
    assert list(rows[0]) == RECORD_COLUMNS
    first, config, removed, _ = rows
    words = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    assert [first[word] for word in words] == ["TOPIC", "orders", "PREFIXED", "User:alice", "*", "READ", "ALLOW"]
    assert (first["acl_id"], first["kind"], first["actor"]) == (made.id, "AccessControlEntryRecord", ACTOR)
    assert [removed[word] for word in words] == [first[word] for word in words]
    assert (removed["kind"], removed["acl_id"]) == ("RemoveAccessControlEntryRecord", made.id)
    assert (config["kind"], config["config_name"], config["config_value"]) == ("ConfigRecord", "a", "b")
    assert {config[word] for word in (*words, "acl_id")} == {None}
    (acl,) = [dict(row) for row in await database.fetch("SELECT * FROM acl_v1")]
    assert list(acl) == ["id", *words, "created_offset", "created_at", "created_by"]
    assert (acl["resource_name"], acl["operation"], acl["created_offset"]) == ("payments", "READ", 4)
    assert (acl["created_by"], acl["created_at"]) == (ACTOR, rows[3]["recorded_at"])


async def test_the_views_show_the_head_and_the_configuration(store: PostgresAclStore, database: Connection) -> None:
    await store.write([create(topic("orders")), alter(("a", "b"), ("c", "d"))], KnownHistory())

    (head,) = [dict(row) for row in await database.fetch("SELECT * FROM acl_head_v1")]
    assert list(head) == ["cluster_id", "epoch", "last_offset", "hash", "log_start_offset"]
    assert (head["last_offset"], head["log_start_offset"]) == (3, 1)
    assert head["hash"] == await database.fetchval('SELECT hash FROM acl_record_v1 WHERE "offset" = 3')
    configs = [dict(row) for row in await database.fetch("SELECT * FROM config_v1 ORDER BY name")]
    assert configs == [
        {"name": "a", "value": "b", "changed_offset": 2},
        {"name": "c", "value": "d", "changed_offset": 3},
    ]


async def test_the_views_of_version_2_say_more(store: PostgresAclStore, database: Connection) -> None:
    ends = datetime(2099, 1, 1, tzinfo=UTC)
    mutation = CreateAcls([NewAcl(topic("orders"), ends, "orders team")], ACTOR, comment="TICKET-1")
    await store.write([mutation, alter(("a", "b"))], KnownHistory())

    for view in ("acl", "acl_record", "acl_head"):
        older = [dict(row) for row in await database.fetch(f"SELECT * FROM {view}_v1")]  # noqa: S608 - names from above
        newer = [dict(row) for row in await database.fetch(f"SELECT * FROM {view}_v2")]  # noqa: S608 - names from above
        assert [{name: row[name] for name in older[0]} for row in newer] == older
    (acl,) = await database.fetch("SELECT expires_at, owner FROM acl_v2")
    assert tuple(acl) == (ends, "orders team")
    records = await database.fetch(
        'SELECT expires_at, owner, comment, hash_version FROM acl_record_v2 ORDER BY "offset"'
    )
    assert [tuple(row) for row in records] == [(ends, "orders team", "TICKET-1", 2), (None, None, None, 1)]
    assert await database.fetchval("SELECT digest FROM acl_head_v2") is not None


async def test_a_store_of_the_release_before_goes_on_with_its_chain_and_gets_its_digest(
    database_url: str, database: Connection
) -> None:
    """As that release left it, without the new columns. Then its writers go on for a while beside new ones."""
    url = DatabaseUrl.parse(database_url)
    await migrate(url)
    store = PostgresAclStore(url)
    await store.write([create(topic("a"), topic("tab\there")), alter(("super.users", "User:a"))], KnownHistory())
    await store.close()
    before = [dict(row) for row in await database.fetch('SELECT * FROM acl_record_v1 ORDER BY "offset"')]
    await downgrade(url, "2026_11_22_exporters")
    await migrate(url)

    assert [dict(row) for row in await database.fetch('SELECT * FROM acl_record_v1 ORDER BY "offset"')] == before
    store, feed = PostgresAclStore(url), PostgresChangeFeed(url)
    migrated = (await feed.poll(0, 10)).head
    async with feed.snapshot() as reader:
        acls = [StandardAcl.from_row(row) async for some in reader.slices() for row in some.rows]
    assert migrated.digest == digest_of(acls, {"super.users": "User:a"})
    await store.write([CreateAcls([NewAcl(topic("b"), owner="x")], ACTOR, comment="new")], KnownHistory())
    poll = await feed.poll(0, 10)
    chained = GENESIS_HASH
    for record in poll.records:
        chained = record_hash(chained, record)
        assert record.hash == chained
    assert poll.head.hash == chained

    await database.execute("UPDATE acl_head SET last_offset = last_offset + 0, digest_offset = digest_offset - 1")
    assert (await feed.poll(0, 10)).head.digest is None
    await store.write([create(topic("c"))], KnownHistory())
    assert (await feed.poll(0, 10)).head.digest is None
    await migrate(url)
    async with feed.snapshot() as reader:
        lines = [some.digest async for some in reader.slices()]
    head = (await feed.poll(0, 10)).head
    assert head.digest == (sum(lines) + config_digest("super.users", "User:a")) % MODULUS
    await store.close()
    await feed.close()


async def test_the_views_know_every_code_and_say_unknown_to_others(database: Connection) -> None:
    named = {(row["field"], row["code"], row["name"]) for row in await database.fetch("SELECT * FROM code_name")}
    await database.execute(
        """INSERT INTO acl SELECT gen_random_uuid(), 98, 98, 98, 98, 'x', 'x', 'x', sha256('x'), 1, now(), 'x';
        INSERT INTO acl_record ("offset", tx_last, kind, resource_type, pattern_type, operation, permission_type,
            recorded_at, actor, hash) VALUES (1, 1, 'x', 98, 98, 98, 98, now(), 'x', sha256('x'))"""
    )

    for field, codes in (
        ("resource_type", ResourceType),
        ("pattern_type", PatternType),
        ("operation", AclOperation),
        ("permission_type", AclPermissionType),
    ):
        assert {(field, int(code), code.name) for code in codes} <= named
        for view in ("acl_v1", "acl_record_v1"):
            assert await database.fetchval(f"SELECT {field} FROM {view}") == "UNKNOWN"  # noqa: S608 - names from above


async def test_names_that_a_newer_version_added_stay(store_url: str, database: Connection) -> None:
    await database.execute("INSERT INTO code_name VALUES ('operation', 98, 'FUTURE')")
    await database.execute("DELETE FROM code_name WHERE name = 'READ'")

    await migrate(DatabaseUrl.parse(store_url))

    assert await database.fetchval("SELECT count(*) FROM code_name WHERE name IN ('FUTURE', 'READ')") == 2


async def test_views_and_their_columns_are_explained(database: Connection) -> None:
    comments = await database.fetch(
        """SELECT c.relname, obj_description(c.oid) AS said,
            count(col_description(c.oid, a.attnum)) AS columns_explained
        FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
        WHERE c.relname IN ('acl_v1', 'acl_record_v1', 'acl_head_v1', 'config_v1', 'acl_v2', 'acl_record_v2',
            'acl_head_v2') GROUP BY c.oid, c.relname"""
    )

    assert len(comments) == 7
    assert all(row["said"] and row["columns_explained"] >= 3 for row in comments)
