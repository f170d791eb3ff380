"""`klamm migrate` against a real PostgreSQL that refuses: one line with host, port, database, user and a way out."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from app.cli.entry_point import main
from app.formats.database_url import DatabaseUrl
from app.store.embedded.server import EmbeddedPostgres
from tests.postgres import new_folder
from tests.surroundings import of_a_command

PASSWORD = "planted-4711-refused"


@pytest.fixture(autouse=True)
def clean_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with of_a_command(monkeypatch, tmp_path):
        yield


@pytest.fixture
def role(database_url: str) -> Iterator[str]:
    """The DSN of a role of its own, which owns nothing."""
    name = "refused_role"
    _sql(database_url, f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    url = urlsplit(database_url)
    yield url._replace(netloc=f"{name}:{PASSWORD}@{url.hostname}:{url.port}").geturl()
    _sql(database_url, f"DROP OWNED BY {name}; DROP ROLE {name}")


def _sql(dsn: str, statements: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(dsn, timeout=30)
        try:
            for statement in statements.split("; "):
                await connection.execute(statement)
        finally:
            await connection.close(timeout=30)

    asyncio.run(execute())


def _refusal(dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What migrate says, without the place that it has to begin with."""
    monkeypatch.setenv("KLAMM_DATABASE_URL", dsn)
    assert main(["migrate"]) == 1
    said = capsys.readouterr().err
    url = urlsplit(dsn)
    assert DatabaseUrl.parse(dsn).shown == f"database `{url.hostname}:{url.port}/{url.path[1:]}`, user `{url.username}`"
    assert said.startswith(f"klamm migrate: {DatabaseUrl.parse(dsn).shown}: ")
    assert said.count("\n") == 1
    assert str(url.password) not in said
    return said


def test_another_password_and_an_unknown_role_are_told_alike(
    role: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "the user does not exist, or the password is wrong"
    assert told in _refusal(role.replace(PASSWORD, "planted-other-one"), monkeypatch, capsys)
    assert told in _refusal(role.replace("refused_role", "nobody_at_all"), monkeypatch, capsys)


def test_a_database_that_does_not_exist(
    role: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = f"{role.rpartition('/')[0]}/no_such_database"
    assert "does not exist; create it" in _refusal(dsn, monkeypatch, capsys)


def test_a_role_that_may_not_log_in(
    role: str, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _sql(database_url, "ALTER ROLE refused_role NOLOGIN")
    assert "has LOGIN" in _refusal(role, monkeypatch, capsys)


@pytest.mark.parametrize("right", ["CONNECT", "CREATE"])
def test_a_role_without_rights(
    right: str, role: str, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if right == "CONNECT":
        _sql(database_url, f'REVOKE CONNECT ON DATABASE "{urlsplit(database_url).path[1:]}" FROM PUBLIC')
    assert "lacks a privilege" in _refusal(role, monkeypatch, capsys)


def test_a_role_that_has_all_its_connections(
    role: str, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _sql(database_url, "ALTER ROLE refused_role CONNECTION LIMIT 0")
    assert "accepts no more connections" in _refusal(role, monkeypatch, capsys)


def test_a_database_that_takes_no_writes(
    role: str, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = urlsplit(database_url).path[1:]
    _sql(
        database_url, f'GRANT ALL ON DATABASE "{database}" TO refused_role; GRANT ALL ON SCHEMA public TO refused_role'
    )
    _sql(database_url, "ALTER ROLE refused_role SET default_transaction_read_only = on")
    assert "hot standby or read-only" in _refusal(role, monkeypatch, capsys)


def test_tls_that_is_not_offered(
    role: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "does not offer TLS" in _refusal(f"{role}?sslmode=require", monkeypatch, capsys)


def test_a_store_of_another_cluster(
    migrated_database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KLAMM_CLUSTER_ID", "another-one")
    assert "this store belongs to cluster" in _refusal(migrated_database_url, monkeypatch, capsys)


def test_a_schema_of_a_newer_version(
    migrated_database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _sql(migrated_database_url, "UPDATE alembic_version SET version_num = '9999'")
    assert "newer version of Klamm" in _refusal(migrated_database_url, monkeypatch, capsys)


def test_a_server_that_shuts_down(tmp_path: Path) -> None:
    with EmbeddedPostgres(new_folder(tmp_path / "data")) as server:
        asyncio.run(_while_it_shuts_down(server))


async def _while_it_shuts_down(server: EmbeddedPostgres) -> None:
    guest = await asyncpg.connect(server.dsn, timeout=30)
    try:
        assert server.pid is not None
        # A smart shutdown waits for its guests, and lets nobody else in.
        os.kill(server.pid, 15)
        async with asyncio.timeout(60):
            while "starting or shutting down" not in await asyncio.to_thread(_said_of, server.dsn):  # noqa: ASYNC110 - a test's wait
                await asyncio.sleep(0.02)
    finally:
        await guest.close(timeout=30)


def _said_of(dsn: str) -> str:
    command = [str(Path(sys.executable).with_name("klamm")), "migrate"]
    environment = {**os.environ, "KLAMM_DATABASE_URL": dsn}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stderr
