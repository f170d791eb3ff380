"""TLS to PostgreSQL: what gets through, what is refused, and in which words."""

import asyncio
import logging
import shutil
import socket
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.errors import StoreUnavailableException
from app.formats.database_url import DatabaseUrl
from app.store.embedded.server import EmbeddedPostgres
from app.store.engine import StoreTimeouts, close_gently, connect
from app.store.migrate import migrate
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.certificates import LOCAL, Authority
from tests.tls_relay import server_context, tls_relay
from tests.updates import create, topic

DEBIAN = Path("/usr/lib/postgresql/15/bin")
TIMEOUTS = StoreTimeouts(connect_s=10.0)


@pytest.fixture(autouse=True)
def _bare_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


async def checked(dsn: str) -> str:
    """What the store says of this way to PostgreSQL; empty if it is open."""
    said = ""
    try:
        await close_gently(await connect(DatabaseUrl.parse(dsn), TIMEOUTS, "test"), TIMEOUTS)
    except StoreUnavailableException as refused:
        said = refused.message
        await asyncio.sleep(0.05)  # the driver hangs up a moment later
    assert "\n" not in said
    assert str(urlsplit(dsn).password) not in said
    return said


async def test_the_whole_store_works_over_verified_tls(database_url: str, authority: Authority) -> None:
    with tls_relay(database_url, server_context(authority.certify("server"))) as relay:
        dsn = relay.dsn(sslmode="verify-full", sslrootcert=str(authority.file))
        await migrate(DatabaseUrl.parse(dsn))
        store, feed = PostgresAclStore(DatabaseUrl.parse(dsn)), PostgresChangeFeed(DatabaseUrl.parse(dsn))
        await feed.wait(5)
        await store.write([create(*(topic(f"t{n}") for n in range(3000)))], KnownHistory())
        async with asyncio.timeout(15):
            await feed.wait(30)
        assert len((await feed.poll(0, 5000)).records) == 3000
        async with feed.snapshot() as reader:
            assert len([row async for some in reader.slices() for row in some.rows]) == 3000
        await feed.close()
        await store.close()

        assert relay.plain == 0
        assert len(relay.handshakes) >= 4
        assert {version for version, _ in relay.handshakes} == {"TLSv1.3"}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_name_and_an_address_that_the_certificate_bears(
    database_url: str, authority: Authority, host: str
) -> None:
    with tls_relay(database_url, server_context(authority.certify("server"))) as relay:
        assert await checked(relay.dsn(host, sslmode="verify-full", sslrootcert=str(authority.file))) == ""


async def test_the_default_for_another_machine_is_to_verify(
    database_url: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.formats.database_url.is_loopback", lambda _: False)
    with tls_relay(database_url, server_context(authority.certify("server")), plain_too=True) as relay:
        assert "not trusted" in await checked(relay.dsn())
        assert await checked(relay.dsn(sslrootcert=str(authority.file))) == ""
        assert relay.plain == 0
        assert await checked(relay.dsn(sslmode="disable")) == ""
        assert relay.plain == 1


async def test_a_certificate_of_a_stranger_is_not_trusted(
    database_url: str, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger", "stranger")
    with tls_relay(database_url, server_context(stranger.certify("server"))) as relay:
        for mode in ("verify-full", "verify-ca", "require"):
            said = await checked(relay.dsn(sslmode=mode, sslrootcert=str(authority.file)))
            assert said.startswith("PostgreSQL's certificate is not trusted (")
            assert "sslrootcert=FILE" in said
        assert await checked(relay.dsn(sslmode="require")) == ""
        assert "not trusted" in await checked(relay.dsn(sslmode="verify-full"))
        assert "not trusted" in await checked(relay.dsn(sslmode="verify-full", sslrootcert="system"))


@pytest.mark.parametrize(
    ("host", "word"), [("localhost", "is for another name"), ("127.0.0.1", "is for another address")]
)
async def test_a_certificate_for_another_name(database_url: str, authority: Authority, host: str, word: str) -> None:
    certified = authority.certify("server", ["DNS:db.example.com"], common_name="localhost")
    with tls_relay(database_url, server_context(certified)) as relay:
        root = str(authority.file)
        said = await checked(relay.dsn(host, sslmode="verify-full", sslrootcert=root))
        assert said.startswith(f"PostgreSQL's certificate {word}")
        assert host not in said
        assert await checked(relay.dsn(host, sslmode="verify-ca", sslrootcert=root)) == ""


async def test_an_expired_certificate(database_url: str, authority: Authority) -> None:
    certified = authority.certify("server", LOCAL, valid_for=-timedelta(days=1))
    with tls_relay(database_url, server_context(certified)) as relay:
        for mode in ("verify-full", "verify-ca"):
            said = await checked(relay.dsn(sslmode=mode, sslrootcert=str(authority.file)))
            assert said.startswith("PostgreSQL's certificate has expired")


@pytest.mark.parametrize("mode", ["require", "verify-full"])
async def test_a_server_without_tls_is_never_spoken_to_in_plain_text(database_url: str, mode: str) -> None:
    with tls_relay(database_url, None, plain_too=True) as relay:
        said = await checked(relay.dsn(sslmode=mode))
        assert said.startswith("PostgreSQL does not offer TLS; ")
        assert "sslmode=disable" in said
        assert relay.plain == 0


async def test_prefer_takes_tls_or_plain_text_without_a_word(database_url: str, authority: Authority) -> None:
    with tls_relay(database_url, None, plain_too=True) as relay:
        assert await checked(relay.dsn()) == ""
        assert await checked(relay.dsn(sslmode="prefer")) == ""
        assert relay.plain == 2
    with tls_relay(database_url, server_context(authority.certify("server"))) as relay:
        assert await checked(relay.dsn()) == ""
        assert len(relay.handshakes) == 1


async def test_a_client_certificate(database_url: str, authority: Authority, tmp_path: Path) -> None:
    clients = Authority(tmp_path / "clients", "clients")
    mine, strangers = clients.certify("klamm"), authority.certify("stranger")
    with tls_relay(database_url, server_context(authority.certify("server"), clients.file)) as relay:
        options = {"sslmode": "verify-full", "sslrootcert": str(authority.file)}
        shown = {"sslcert": str(mine.certificate), "sslkey": str(mine.key)}
        assert await checked(relay.dsn(**options, **shown)) == ""
        assert relay.handshakes[0][1]
        for other in ({}, {"sslcert": str(strangers.certificate), "sslkey": str(strangers.key)}):
            said = await checked(relay.dsn(**options, **other))
            assert "sslcert" in said


async def test_a_new_authority_is_taken_without_a_restart(
    database_url: str, authority: Authority, tmp_path: Path
) -> None:
    root = tmp_path / "root.pem"
    shutil.copy(Authority(tmp_path / "old", "old").file, root)
    with tls_relay(database_url, server_context(authority.certify("server"))) as relay:
        dsn = relay.dsn(sslmode="verify-full", sslrootcert=str(root))
        assert "not trusted" in await checked(dsn)
        shutil.copy(authority.file, root)
        assert await checked(dsn) == ""


@pytest.mark.parametrize("reply", [b"", b"S", b"SHTTP/1.1 400 Bad Request\r\n\r\n", b"E"])
async def test_something_else_at_the_other_end_is_an_outage(reply: bytes) -> None:
    def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:  # noqa: ARG001 - asyncio calls it
        writer.write(reply)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await checked(f"postgresql://klamm:planted@localhost:{port}/klamm?sslmode=verify-full")


async def test_kept_connections_tell_the_cause_and_log_no_traceback(
    database_url: str, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path / "stranger", "stranger")
    with tls_relay(database_url, server_context(stranger.certify("server"))) as relay, caplog.at_level(logging.INFO):
        dsn = relay.dsn(sslmode="verify-full", sslrootcert=str(authority.file))
        store, feed = (
            PostgresAclStore(DatabaseUrl.parse(dsn), TIMEOUTS),
            PostgresChangeFeed(DatabaseUrl.parse(dsn), TIMEOUTS),
        )
        attempts: list[Callable[[], object]] = [
            lambda: store.write([create(topic("a"))], KnownHistory()),
            lambda: feed.poll(0, 1),
        ]
        for attempt in attempts:
            with pytest.raises(StoreUnavailableException, match="not trusted"):
                await attempt()  # type: ignore[misc]  # coroutines of several types
        await feed.wait(2)
        with pytest.raises(StoreUnavailableException, match="not trusted"):
            await migrate(DatabaseUrl.parse(dsn))
        await feed.close()
        await store.close()
    lost = [record for record in caplog.records if record.message == "feed_listener_lost"]
    assert len(lost) == 1
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.skipif(not (DEBIAN / "postgres").exists(), reason=f"no PostgreSQL with OpenSSL in {DEBIAN}")
async def test_a_real_postgresql_with_tls_and_client_certificates(tmp_path: Path, authority: Authority) -> None:
    data = tmp_path / "data"
    with EmbeddedPostgres(data, bin_dir=DEBIAN):
        pass  # made, and stopped again
    cluster = data / "postgres"
    owner = cluster.stat()
    certified = authority.certify("server")
    for source, name in ((certified.certificate, "server.crt"), (certified.key, "server.key"), (authority.file, "ca")):
        shutil.copy(source, cluster / name)
        (cluster / name).chmod(0o600)
        shutil.chown(cluster / name, owner.st_uid, owner.st_gid)
    (cluster / "pg_hba.conf").write_text("hostssl all all 127.0.0.0/8 scram-sha-256 clientcert=verify-ca\n")
    settings = {"ssl": "on", "ssl_cert_file": "server.crt", "ssl_key_file": "server.key", "ssl_ca_file": "ca"}
    with EmbeddedPostgres(data, bin_dir=DEBIAN, settings=settings) as server:
        mine = authority.certify("klamm")
        dsn = server.dsn.replace("127.0.0.1", "localhost")
        verified = f"{dsn}?sslmode=verify-full&sslrootcert={authority.file}"
        shown = f"{verified}&sslcert={mine.certificate}&sslkey={mine.key}"
        await migrate(DatabaseUrl.parse(shown))
        store = PostgresAclStore(DatabaseUrl.parse(shown))
        assert (await store.write([create(topic("a"))], KnownHistory())).last_offset == 1
        await store.close()
        connection = await connect(DatabaseUrl.parse(shown), TIMEOUTS, "test")
        assert await connection.fetchval("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "TLSv1.3"
        await close_gently(connection, TIMEOUTS)
        assert "client certificate" in await checked(verified)
        assert "pg_hba.conf" in await checked(f"{dsn}?sslmode=disable")
        assert "not trusted" in await checked(f"{dsn}?sslmode=verify-full")


def test_the_test_machine_knows_localhost() -> None:
    assert {each[4][0] for each in socket.getaddrinfo("localhost", 1)} & {"127.0.0.1", "::1"}
    assert ssl.HAS_TLSv1_3
