"""The whole service on a PostgreSQL that was set up as docs/database.md says: roles, TLS, limits of each session."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.core.continuity import FeedPosition
from app.core.records import GENESIS_HASH
from app.formats.database_url import DatabaseUrl
from app.store.reading.change_feed import PostgresChangeFeed
from tests.certificates import Authority
from tests.database_roles import DatabaseRoles, make_roles
from tests.klamm import LIMIT_S, ROOT, acl, action, replica, wait_until
from tests.planted import hear, plant_password
from tests.postgres import Postgres, Store, run, sql
from tests.surroundings import without_ours
from tests.tls_relay import server_context, tls_relay

KEPT = {
    "statement_timeout": "5000",
    "lock_timeout": "2000",
    "idle_in_transaction_session_timeout": "5000",
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "jit": "off",
}
FOR_ONE_WORK = {**KEPT, "idle_session_timeout": "60000"}
SESSIONS: Mapping[str, Mapping[str, str]] = {
    "klamm feed": KEPT,
    "klamm listener": KEPT,
    "klamm writer": KEPT,
    "klamm import": KEPT,
    "klamm snapshot": {**FOR_ONE_WORK, "tcp_user_timeout": "600000"},
    "klamm retention": FOR_ONE_WORK,
    "klamm epoch": FOR_ONE_WORK,
    "klamm digest": {**FOR_ONE_WORK, "lock_timeout": "4000"},
    "klamm migration": {**FOR_ONE_WORK, "lock_timeout": "4000"},
}
"""Every session that Klamm has with PostgreSQL, and its limits (in ms; keepalives in s)."""

# PostgreSQL shows nobody another session's settings, so each writes down its own as it begins.
RECORDER = (
    "CREATE TABLE session_setting (application_name text, name text, setting text)",
    """CREATE FUNCTION record_session() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        INSERT INTO public.session_setting
        SELECT current_setting('application_name'), name, setting FROM pg_settings WHERE source = 'client'
            OR name LIKE 'tcp_%';
    END $$""",
    "CREATE EVENT TRIGGER record_session ON login EXECUTE FUNCTION record_session()",
    "ALTER EVENT TRIGGER record_session ENABLE ALWAYS",
)


def klamm(dsn: str, *arguments: str, given: str = "") -> tuple[int, str]:
    """One command of Klamm on this PostgreSQL: its exit code and all it said."""
    clean = without_ours()
    plant_password(dsn)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("klamm")), *arguments],
        cwd=ROOT,
        env={**clean, "KLAMM_DATABASE_URL": dsn},
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    hear(done.stdout)
    return done.returncode, done.stdout


@pytest.fixture
def roles(own_server: Postgres) -> DatabaseRoles:
    own_server.start()
    return run(make_roles(own_server.dsn, "klamm_with_roles"))


def test_migrator_and_app_each_do_their_part_and_no_more(roles: DatabaseRoles, tmp_path: Path) -> None:
    code, said = klamm(roles.serve, "migrate")
    assert code == 1
    assert said.startswith(
        f"klamm migrate: {DatabaseUrl.parse(roles.serve).shown}: the role of `database.url` lacks a privilege"
    )
    assert klamm(roles.migrate, "migrate") == (0, "")

    with replica(roles.serve) as service:
        service.ready()
        service.create(acl("orders"))
        assert service.authorize("User:alice", action("orders")) == ["ALLOWED"]
        (tmp_path / "acls.jsonl").write_text(
            '{"resource_type": "TOPIC", "resource_name": "payments", "principal": "User:alice", "operation": "READ", '
            '"permission_type": "ALLOW"}\n'
        )
        code, said = klamm(roles.serve, "import", "--quiet", str(tmp_path / "acls.jsonl"))
        assert (code, re.findall(r"^created: (\d+)$", said, re.MULTILINE)) == (0, ["1"])
        wait_until(lambda: service.authorize("User:alice", action("payments")) == ["ALLOWED"], "the import")
        service.delete({"resource_name": "orders"})
        assert service.authorize("User:alice", action("orders")) == ["DENIED"]
        # A newer version's migration runs while the service works.
        assert klamm(roles.migrate, "migrate") == (0, "")
        service.create(acl("orders"))
        assert [row[0] for row in sql(roles.spark, "SELECT resource_name FROM acl_v1 ORDER BY 1")] == [
            "orders",
            "payments",
        ]
        assert "privilege" not in "\n".join(service.lines)


def test_every_session_has_its_limits(store: Store, tmp_path: Path) -> None:
    for statement in RECORDER:
        sql(store.dsn, statement)
    (tmp_path / "acls.jsonl").write_text(
        '{"resource_type": "TOPIC", "resource_name": "payments", "principal": "User:alice", "operation": "READ", '
        '"permission_type": "ALLOW"}\n'
    )

    with replica(store.dsn) as service:
        service.ready()
        service.create(acl("orders"))
        assert klamm(store.dsn, "import", "--quiet", str(tmp_path / "acls.jsonl"))[0] == 0
        assert klamm(store.dsn, "migrate")[0] == 0

        async def trim_and_renounce() -> None:
            feed = PostgresChangeFeed(DatabaseUrl.parse(store.dsn))
            await feed.trim(keep_age=None, keep_count=None)
            await feed.begin_epoch_if_lost(FeedPosition((await feed.poll(0, 1)).head.epoch, 0, GENESIS_HASH))
            await feed.close()

        run(trim_and_renounce())
        standing = """SELECT application_name FROM pg_stat_activity WHERE datname = current_database()
            AND application_name LIKE 'klamm%' ORDER BY 1"""
        wait_until(
            lambda: [row[0] for row in sql(store.dsn, standing)] == ["klamm feed", "klamm listener", "klamm writer"],
            "three sessions while it serves",
        )

    rows = sql(store.dsn, "SELECT DISTINCT * FROM session_setting WHERE application_name LIKE 'klamm%'")
    assert {row[0] for row in rows} == set(SESSIONS)
    for session, settings in SESSIONS.items():
        found = {name: setting for application_name, name, setting in rows if application_name == session}
        assert {name: found.get(name) for name in settings} == settings, session


def test_probes_and_metrics_never_ask_the_database(store: Store) -> None:
    sql(store.dsn, "ALTER SYSTEM SET log_statement = 'all'")
    sql(store.dsn, "SELECT pg_reload_conf()")
    log = store.server.folder / "postgresql.log"
    try:
        with replica(store.dsn, KLAMM_FEED_POLL_MS="60000") as service:
            service.ready()
            wait_until(lambda: "SELECT 1" in log.read_text(), "the heartbeat is logged")
            size = log.stat().st_size
            for path in ("/livez", "/readyz", "/startupz", "/metrics", "/readyz/PLAINTEXT") * 60:
                assert service.http.get(path).status_code == 200
            statements = [
                line for line in log.read_text()[size:].splitlines() if "statement: " in line or "execute " in line
            ]
    finally:
        sql(store.dsn, "ALTER SYSTEM RESET log_statement")
        sql(store.dsn, "SELECT pg_reload_conf()")
    assert len(statements) < 60, statements[:20]


def test_the_service_over_verified_tls(store: Store, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    root = tmp_path / "root.pem"
    shutil.copy(Authority(tmp_path / "other", "other").file, root)
    with tls_relay(store.dsn, server_context(authority.certify("server"))) as relay:
        dsn = relay.dsn(sslmode="verify-full", sslrootcert=str(root))
        code, said = klamm(dsn, "migrate")
        assert (code, said.count("\n")) == (1, 1)
        assert said.startswith(
            f"klamm migrate: {DatabaseUrl.parse(dsn).shown}: PostgreSQL's certificate is not trusted ("
        )
        with replica(dsn) as service:
            wait_until(lambda: "not trusted" in "\n".join(service.lines), "the log says why")
            assert service.http.get("/readyz").status_code == 503
            # The right CA is mounted: no restart.
            shutil.copy(authority.file, root)
            service.ready()
            service.create(acl("orders"))
            assert service.authorize("User:alice", action("orders")) == ["ALLOWED"]
            assert "Traceback" not in "\n".join(service.lines)
        assert relay.plain == 0
        assert klamm(dsn, "migrate") == (0, "")
