"""Least privilege: what the roles of deploy/postgres/roles.sql can do on a real PostgreSQL, and what they can't."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest

from app.core.continuity import FeedPosition, KnownHistory
from app.core.kafka.bindings import NewAcl
from app.core.kafka.errors import StoreUnavailableException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import BulkAcl
from app.formats.database_url import DatabaseUrl
from app.store.embedded.server import EmbeddedPostgres
from app.store.engine import Connection
from app.store.migrate import downgrade, migrate
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from app.store.writing.bulk_store import PostgresBulkStore
from tests.database_roles import (
    MIGRATE,
    PASSWORD,
    ROLES_SQL,
    SERVE,
    DatabaseRoles,
    as_role,
    connected,
    make_roles,
    psql,
)
from tests.klamm import until
from tests.postgres import new_folder, run
from tests.psql_script import run_script
from tests.updates import alter, create, created, delete, topic

_numbers = itertools.count(1)

HEAD_COLUMNS = (
    "epoch",
    "hash",
    "last_offset",
    "system_identifier",
    "timeline",
    "digest",
    "digest_offset",
    "refused_epoch",
)
PRIVILEGES = {
    *(("klamm_app", "acl", privilege) for privilege in ("DELETE", "INSERT", "SELECT")),
    *(("klamm_app", f"acl.{column}", "UPDATE") for column in ("expires_at", "owner")),
    ("klamm_app", "acl_head", "SELECT"),
    ("klamm_app", "acl_epoch", "SELECT"),
    *(("klamm_app", f"acl_head.{column}", "UPDATE") for column in HEAD_COLUMNS),
    *(("klamm_app", "acl_record", privilege) for privilege in ("INSERT", "SELECT")),
    *(("klamm_app", "config", privilege) for privilege in ("DELETE", "INSERT", "SELECT", "UPDATE")),
    ("klamm_app", "code_name", "SELECT"),
    ("klamm_app", "public", "USAGE"),
    ("klamm_app", "exporter", "SELECT"),
    ("klamm_app", "trim_acl_record(bigint)", "EXECUTE"),
    ("klamm_spark", "acl_v1", "SELECT"),
    ("klamm_spark", "acl_record_v1", "SELECT"),
    ("klamm_spark", "acl_head_v1", "SELECT"),
    *(("klamm_spark", f"{name}_v2", "SELECT") for name in ("acl", "acl_record", "acl_head")),
    ("klamm_spark", "config_v1", "SELECT"),
    ("klamm_spark", "acl_epoch_v1", "SELECT"),
    ("klamm_spark", "tell_exported(uuid,uuid,bigint)", "EXECUTE"),
    ("klamm_spark", "public", "USAGE"),
}
"""All that anybody but the owner may do with anything in the schema."""

_HELD = """WITH held AS (
    SELECT relname::text AS object, relowner AS owner, relacl AS acl FROM pg_class
    WHERE relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT relname || '.' || attname, relowner, attacl FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'public'::regnamespace AND attacl IS NOT NULL
    UNION ALL
    SELECT oid::regprocedure::text, proowner, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
    UNION ALL
    SELECT nspname, nspowner, nspacl FROM pg_namespace WHERE nspname = 'public'
)
SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, object, privilege_type
FROM held, aclexplode(acl) WHERE grantee <> owner AND grantee <> to_regrole('klamm_migrator')"""


async def held(connection: Connection) -> set[tuple[str, str, str]]:
    return {(row["role"], row["object"], row["privilege_type"]) for row in await connection.fetch(_HELD)}


async def owners(connection: Connection) -> set[str]:
    rows = await connection.fetch(
        """SELECT relowner::regrole::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
        UNION SELECT proowner::regrole::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION SELECT datdba::regrole::text FROM pg_database WHERE datname = current_database()"""
    )
    return {row[0] for row in rows}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server of its own: roles belong to all of its databases."""
    with EmbeddedPostgres(new_folder(tmp_path_factory.mktemp("postgres") / "data")) as server:
        yield server


@pytest.fixture
async def roles(server: EmbeddedPostgres) -> DatabaseRoles:
    """A newborn store, made by the migrator's login."""
    roles = await make_roles(server.dsn, f"roles_{next(_numbers)}")
    await migrate(DatabaseUrl.parse(roles.migrate))
    return roles


@pytest.fixture(scope="module")
def shared(server: EmbeddedPostgres) -> DatabaseRoles:
    """The same for the tests of what is refused, which leave it as it is."""
    roles = run(make_roles(server.dsn, f"roles_{next(_numbers)}"))
    run(migrate(DatabaseUrl.parse(roles.migrate)))
    return roles


@pytest.fixture
async def admin(roles: DatabaseRoles) -> AsyncIterator[Connection]:
    """A superuser's look at that store."""
    async with connected(roles.admin) as connection:
        yield connection


@pytest.fixture
async def store(roles: DatabaseRoles) -> AsyncIterator[PostgresAclStore]:
    store = PostgresAclStore(DatabaseUrl.parse(roles.serve))
    yield store
    await store.close()


@pytest.fixture
async def feed(roles: DatabaseRoles) -> AsyncIterator[PostgresChangeFeed]:
    feed = PostgresChangeFeed(DatabaseUrl.parse(roles.serve))
    yield feed
    await feed.close()


def acls(*names: str) -> dict[bytes, BulkAcl]:
    return {topic(name).natural_key: BulkAcl(uuid4(), NewAcl(topic(name))) for name in names}


async def trimmed(dsn: str, through: int | None) -> object:
    """What the function answers to this role."""
    async with connected(dsn) as connection:
        return await connection.fetchval("SELECT trim_acl_record($1)", through)


async def test_everything_belongs_to_the_migrator_and_nobody_may_do_more_than_he_needs(admin: Connection) -> None:
    assert await held(admin) == PRIVILEGES
    assert await owners(admin) == {"klamm_migrator"}


async def test_the_app_role_does_all_that_serving_needs(
    store: PostgresAclStore, feed: PostgresChangeFeed, roles: DatabaseRoles
) -> None:
    await feed.wait(5)
    outcome = await store.write([create(topic("a"), topic("b")), alter(("x", "1")), alter(("x", "2"))], KnownHistory())
    assert all(each.created for each in created(outcome.outcomes[0]))
    async with asyncio.timeout(15):
        await feed.wait(30)  # NOTIFY came
    await store.write([delete(AclBindingFilter(resource_name="a")), alter(("x", None))], KnownHistory())

    bulk = PostgresBulkStore(DatabaseUrl.parse(roles.serve))
    batch = await bulk.add(acls("c", "d", "b"), "User:import", KnownHistory())
    await bulk.close()
    assert (batch.created, batch.found) == ([7, 8], [2])

    assert len((await feed.poll(0, 100)).records) == 8
    async with feed.snapshot() as reader:
        assert len([row async for some in reader.slices() for row in some.rows]) == 3
    assert await feed.trim(keep_age=timedelta(0), keep_count=None) == 6
    assert (await feed.poll(8, 1)).head.log_start_offset == 7
    await feed.begin_epoch_if_lost(FeedPosition(batch.token.epoch, 9, b"of a record that was lost"))
    assert (await feed.poll(8, 1)).head.epoch != batch.token.epoch


async def test_the_app_role_begins_a_new_epoch_on_another_server(store: PostgresAclStore, admin: Connection) -> None:
    first = await store.write([create(topic("a"))], KnownHistory())
    assert await admin.fetchval("SELECT system_identifier FROM acl_head") is not None
    await admin.execute("UPDATE acl_head SET timeline = timeline + 1")

    assert (await store.write([create(topic("b"))], KnownHistory())).epoch != first.epoch


@pytest.mark.parametrize(
    "statement",
    [
        *(f"TRUNCATE {table}" for table in ("acl", "acl_record", "acl_head", "config", "code_name", "alembic_version")),
        "UPDATE acl_record SET actor = 'User:nobody'",
        "DELETE FROM acl_record",
        "UPDATE acl SET principal = 'User:mallory'",
        "UPDATE acl_head SET log_start_offset = 2",
        "UPDATE acl_head SET cluster_id = 'x'",
        "DELETE FROM acl_head",
        "INSERT INTO acl_head SELECT * FROM acl_head",
        "INSERT INTO code_name VALUES ('operation', 99, 'X')",
        "UPDATE code_name SET name = 'X'",
        "DELETE FROM code_name",
        "SELECT FROM alembic_version",
        "SELECT FROM acl_v1",
        "CREATE TABLE t (x int)",
        "CREATE TEMPORARY TABLE acl_record (x int)",
        "CREATE SCHEMA s",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ALTER TABLE acl ADD COLUMN x int",
        "ALTER TABLE acl_record DISABLE TRIGGER ALL",
        "CREATE RULE r AS ON DELETE TO acl DO INSTEAD NOTHING",
        "DROP TABLE acl",
        "DROP VIEW acl_v1",
        "DROP FUNCTION trim_acl_record(bigint)",
        "ALTER FUNCTION trim_acl_record(bigint) SECURITY INVOKER",
        "SET ROLE klamm_migrator",
        "SET ROLE klamm_spark",
        "SET session_replication_role = replica",
        "COPY acl TO PROGRAM 'true'",
    ],
)
async def test_the_app_role_is_refused(shared: DatabaseRoles, statement: str) -> None:
    async with connected(shared.serve) as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)


async def test_the_spark_role_reads_the_views_through_their_owners_rights(
    store: PostgresAclStore, roles: DatabaseRoles
) -> None:
    await store.write([create(topic("orders"))], KnownHistory())

    async with connected(roles.spark) as connection:
        (acl,) = await connection.fetch("SELECT * FROM acl_v1")
        (record,) = await connection.fetch("SELECT * FROM acl_record_v1")
        (head,) = await connection.fetch("SELECT * FROM acl_head_v1")
        assert await connection.fetch("SELECT * FROM config_v1") == []
    assert acl["resource_type"] == record["resource_type"] == "TOPIC"
    assert (head["last_offset"], head["hash"]) == (record["offset"], record["hash"])


@pytest.mark.parametrize(
    "statement",
    [
        *(
            f"SELECT FROM {table}"
            for table in ("acl", "acl_record", "acl_head", "config", "code_name", "exporter", "alembic_version")
        ),
        "DELETE FROM acl_v1",
        "UPDATE acl_v1 SET principal = 'x'",
        "INSERT INTO acl VALUES (DEFAULT)",
        "TRUNCATE acl",
        "SELECT trim_acl_record(1)",
        "CREATE TABLE t (x int)",
        "CREATE TEMPORARY TABLE t (x int)",
        "DROP VIEW acl_v1",
        "SET ROLE klamm_app",
        "SET ROLE klamm_migrator",
    ],
)
async def test_the_spark_role_is_refused(shared: DatabaseRoles, statement: str) -> None:
    # Its sessions only read, too, but that each of them can change.
    async with connected(shared.spark, default_transaction_read_only="off") as connection:
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.execute(statement)
    # 55000: such a view takes no updates, whoever asks.
    assert refused.value.sqlstate in {"42501", "55000"}


async def test_a_stranger_may_not_even_connect(roles: DatabaseRoles, admin: Connection) -> None:
    await admin.execute(f"CREATE ROLE stranger LOGIN PASSWORD '{PASSWORD}'")
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await asyncpg.connect(as_role(roles.admin, "stranger"))
    finally:
        await admin.execute("DROP ROLE stranger")


async def test_the_login_of_one_database_does_not_open_another(server: EmbeddedPostgres, roles: DatabaseRoles) -> None:
    psql(server.dsn, ROLES_SQL, database="other_store", serve_login="other_serve")
    async with connected(server.dsn) as admin:
        await admin.execute(f"ALTER ROLE other_serve PASSWORD '{PASSWORD}'")

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await asyncpg.connect(as_role(roles.serve, "other_serve"))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await asyncpg.connect(as_role(server.dsn, SERVE, "other_store"))


async def test_the_script_changes_nothing_when_it_is_run_again(
    server: EmbeddedPostgres, roles: DatabaseRoles, admin: Connection
) -> None:
    name = roles.admin.rpartition("/")[2]
    said = psql(server.dsn, ROLES_SQL, database=name)

    assert "CREATE" not in said
    assert "OWNER" not in said
    assert await held(admin) == PRIVILEGES
    await migrate(DatabaseUrl.parse(roles.migrate))
    assert await held(admin) == PRIVILEGES


_MADE = """
    SELECT rolname, rolcanlogin, rolsuper, 'login' FROM pg_roles WHERE rolname LIKE $1
    UNION ALL SELECT pg_get_userbyid(member)::text, true, true, roleid::regrole::text FROM pg_auth_members
        WHERE pg_get_userbyid(member) LIKE $1
    UNION ALL SELECT pg_get_userbyid(setrole)::text, true, setdatabase = 0, unnest(setconfig) FROM pg_db_role_setting
        WHERE pg_get_userbyid(setrole) LIKE $1
    UNION ALL SELECT pg_get_userbyid(datdba)::text, true, true, unnest(datacl)::text FROM pg_database
        WHERE datname = current_database()
    UNION ALL SELECT 'public', true, true, unnest(nspacl)::text FROM pg_namespace WHERE nspname = 'public'
    UNION ALL SELECT defaclrole::regrole::text, true, true, unnest(defaclacl)::text FROM pg_default_acl
"""


async def test_a_connection_runs_the_script_as_psql_does(server: EmbeddedPostgres) -> None:
    made = []
    for way in ("psql", "conn"):
        names = {f"{each}_login": f"{way}_{each}" for each in ("migrate", "serve", "spark")} | {"database": f"{way}_db"}
        if way == "psql":
            psql(server.dsn, ROLES_SQL, **names)
        else:
            await run_script(server.dsn, ROLES_SQL.read_text(), **names)
        async with connected(f"{server.dsn.rpartition('/')[0]}/{way}_db") as admin:
            made.append(sorted(str(tuple(row)).replace(way, "") for row in await admin.fetch(_MADE, f"{way}%")))
    assert made[0] == made[1]
    assert len(made[0]) > 25


async def test_a_store_of_a_single_role_is_taken_over(server: EmbeddedPostgres) -> None:
    name = f"single_{next(_numbers)}"
    async with connected(server.dsn) as admin:
        await admin.execute(f"CREATE ROLE single_owner LOGIN PASSWORD '{PASSWORD}'")
        await admin.execute(f"CREATE DATABASE {name} OWNER single_owner")
    single = as_role(server.dsn, "single_owner", name)
    await migrate(DatabaseUrl.parse(single))
    store = PostgresAclStore(DatabaseUrl.parse(single))
    await store.write([create(topic("a"))], KnownHistory())
    await store.close()

    roles = await make_roles(server.dsn, name)
    await migrate(DatabaseUrl.parse(roles.migrate))

    async with connected(roles.admin) as admin:
        assert await held(admin) == PRIVILEGES
        assert await owners(admin) == {"klamm_migrator"}
    store = PostgresAclStore(DatabaseUrl.parse(roles.serve))
    assert (await store.write([create(topic("b"))], KnownHistory())).last_offset == 2
    await store.close()


async def test_the_script_needs_no_superuser(tmp_path_factory: pytest.TempPathFactory) -> None:
    with EmbeddedPostgres(new_folder(tmp_path_factory.mktemp("managed") / "data")) as server:
        async with connected(server.dsn) as admin:
            await admin.execute(f"CREATE ROLE dba LOGIN CREATEROLE CREATEDB PASSWORD '{PASSWORD}'")
            for _ in range(2):
                psql(as_role(server.dsn, "dba", "postgres"), ROLES_SQL, database="managed")
            await admin.execute(f"ALTER ROLE {MIGRATE} PASSWORD '{PASSWORD}'")
        migrate_dsn = as_role(server.dsn, MIGRATE, "managed")
        await migrate(DatabaseUrl.parse(migrate_dsn))
        async with connected(migrate_dsn) as owner:
            assert await held(owner) == PRIVILEGES
            assert await owners(owner) == {"klamm_migrator"}


async def test_what_can_not_be_granted_is_logged_and_no_fault(
    roles: DatabaseRoles, admin: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    name = roles.admin.rpartition("/")[2]
    await admin.execute(f"CREATE ROLE deputy LOGIN PASSWORD '{PASSWORD}'")
    await admin.execute(f"GRANT CONNECT ON DATABASE {name} TO deputy")
    await admin.execute("GRANT USAGE, CREATE ON SCHEMA public TO deputy")
    await admin.execute("GRANT SELECT ON alembic_version, code_name, acl_head TO deputy")
    await admin.execute("REVOKE SELECT ON code_name FROM klamm_app")
    await admin.execute("REVOKE SELECT ON acl_v1 FROM klamm_spark")
    try:
        await migrate(DatabaseUrl.parse(as_role(roles.admin, "deputy")))

        told = [record for record in caplog.records if record.message == "privileges_not_granted"]
        assert [(record.__dict__["role"], record.__dict__["object"]) for record in told] == [
            ("klamm_app", "code_name"),  # PostgreSQL only warned
            ("klamm_spark", "acl_v1"),  # it refused
        ]
        caplog.clear()
        await migrate(DatabaseUrl.parse(roles.migrate))
        assert not caplog.records
    finally:
        await admin.execute("DROP OWNED BY deputy; DROP ROLE deputy")
    assert await held(admin) == PRIVILEGES


@pytest.fixture
async def six_records(store: PostgresAclStore) -> None:
    """Offsets 1, 2-4, 5, 6."""
    await store.write([create(topic("a"))], KnownHistory())
    await store.write([create(topic("b"), topic("c"), topic("d"))], KnownHistory())
    await store.write([create(topic("e"))], KnownHistory())
    await store.write([create(topic("f"))], KnownHistory())


@pytest.mark.usefixtures("six_records")
@pytest.mark.parametrize(
    ("through", "why"),
    [
        (None, "a beginning"),
        (-1, "a beginning"),
        (0, "a beginning"),
        (2, "end of a transaction"),
        (3, "end of a transaction"),
        (6, "never its last transaction"),
        (7, "never its last transaction"),
    ],
)
async def test_the_function_refuses_what_is_no_beginning(
    roles: DatabaseRoles, feed: PostgresChangeFeed, through: int | None, why: str
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=why):
        await trimmed(roles.serve, through)

    assert len((await feed.poll(0, 100)).records) == 6


@pytest.mark.usefixtures("six_records")
async def test_the_function_trims_up_to_a_transactions_end_and_once(roles: DatabaseRoles, admin: Connection) -> None:
    assert await trimmed(roles.serve, 4) == 4

    assert await admin.fetchval('SELECT array_agg("offset" ORDER BY "offset") FROM acl_record') == [5, 6]
    assert await admin.fetchval("SELECT log_start_offset FROM acl_head") == 5
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await trimmed(roles.serve, 4)


async def test_the_function_trims_ten_thousand_at_once_or_one_transaction(
    store: PostgresAclStore, roles: DatabaseRoles
) -> None:
    bulk = PostgresBulkStore(DatabaseUrl.parse(roles.serve))
    for start in (0, 10_000, 10_001):
        await bulk.add(
            acls(*(f"t{n}" for n in range(start, start + (10_001 if start == 10_001 else 1)))), "User:x", KnownHistory()
        )
    await bulk.close()
    await store.write([create(topic("last"))], KnownHistory())

    # Offsets 1, 2, 3-10,003, 10,004.
    with pytest.raises(asyncpg.InvalidParameterValueError, match="at most 10000"):
        await trimmed(roles.serve, 10_003)
    assert await trimmed(roles.serve, 2) == 2
    assert await trimmed(roles.serve, 10_003) == 10_001


@pytest.mark.usefixtures("six_records")
async def test_the_function_means_the_stores_tables_whatever_its_caller_has_made(admin: Connection) -> None:
    await admin.execute(
        """CREATE TEMPORARY TABLE acl_record AS SELECT * FROM acl_record;
        CREATE TEMPORARY TABLE acl_head AS SELECT * FROM acl_head;
        CREATE SCHEMA trap; CREATE TABLE trap.acl_head AS SELECT * FROM acl_head;
        SET search_path = trap, public"""
    )

    await admin.fetchval("SELECT trim_acl_record(1)")

    assert await admin.fetchval("SELECT count(*) FROM public.acl_record") == 5
    assert await admin.fetchval("SELECT count(*) FROM pg_temp.acl_record") == 6


@pytest.mark.usefixtures("six_records")
async def test_the_function_waits_for_the_writer_who_has_the_head(roles: DatabaseRoles, admin: Connection) -> None:
    async with admin.transaction():
        await admin.execute("SELECT FROM acl_head FOR UPDATE")
        async with connected(roles.serve, lock_timeout="300") as connection:
            with pytest.raises(asyncpg.LockNotAvailableError):
                await connection.fetchval("SELECT trim_acl_record(1)")


@pytest.mark.usefixtures("six_records")
async def test_the_function_looks_at_the_head_as_who_had_it_before_left_it(
    roles: DatabaseRoles, admin: Connection
) -> None:
    async with admin.transaction():
        await admin.fetchval("SELECT trim_acl_record(5)")
        late = asyncio.create_task(trimmed(roles.serve, 4))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'klamm_serve'"
        async with connected(roles.admin) as looking:
            await until(lambda: looking.fetchval(waiting), "somebody stands in line")

    with pytest.raises(asyncpg.InvalidParameterValueError):
        await late
    assert await admin.fetchval("SELECT log_start_offset FROM acl_head") == 6


@pytest.mark.usefixtures("six_records")
async def test_code_from_before_the_function_trims_as_the_owner(roles: DatabaseRoles) -> None:
    async with connected(roles.migrate) as connection, connection.transaction():
        await connection.execute("SELECT last_offset, log_start_offset FROM acl_head FOR UPDATE")
        await connection.execute('DELETE FROM acl_record WHERE "offset" <= 4')
        await connection.execute("UPDATE acl_head SET log_start_offset = 5")
    feed = PostgresChangeFeed(DatabaseUrl.parse(roles.serve))
    assert (await feed.poll(4, 10)).head.log_start_offset == 5
    assert await feed.trim(keep_age=None, keep_count=1) == 1
    await feed.close()


@pytest.mark.usefixtures("six_records")
async def test_a_schema_from_before_the_function_says_that_it_wants_migrating(roles: DatabaseRoles) -> None:
    await downgrade(DatabaseUrl.parse(roles.migrate), "2026_11_21_first_schema")
    feed = PostgresChangeFeed(DatabaseUrl.parse(roles.migrate))

    with pytest.raises(StoreUnavailableException, match="run `klamm migrate`"):
        await feed.trim(keep_age=None, keep_count=1)

    await migrate(DatabaseUrl.parse(roles.migrate))
    assert await feed.trim(keep_age=None, keep_count=1) == 5
    await feed.close()
