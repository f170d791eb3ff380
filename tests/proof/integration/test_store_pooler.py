"""The store behind a real PgBouncer: what it refuses is named, and the page on databases says what works."""

import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.core.kafka.errors import StoreUnavailableException
from app.formats.database_url import DatabaseUrl
from app.store.engine import STAYS, connect
from app.store.migrate import migrate
from app.store.reading.change_feed import PostgresChangeFeed
from tests.store_on_postgres import PATIENT

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
PAGE = Path(__file__).parents[3] / "docs" / "database.md"

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="there is no pgbouncer here (apt-get install pgbouncer)")

Pooled = Callable[..., str]


@pytest.fixture
def pooled(migrated_database_url: str) -> Iterator[Pooled]:
    """Starts a PgBouncer with these settings in front of the database, and tells the DSN."""
    with ExitStack() as stack:
        yield lambda **settings: _started(stack, migrated_database_url, settings)


def _started(stack: ExitStack, dsn: str, settings: dict[str, str]) -> str:
    url = urlsplit(dsn)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    behind = f"host={url.hostname} port={url.port} dbname={url.path[1:]} user={url.username} password={url.password}"
    words = {"listen_addr": "127.0.0.1", "listen_port": port, "unix_socket_dir": "", "auth_type": "any", **settings}
    lines = ["[databases]", f"store = {behind}", "[pgbouncer]", *(f"{name} = {word}" for name, word in words.items())]
    ini = folder / "pgbouncer.ini"
    ini.write_text("\n".join(lines))
    # It does not run as root.
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    if account is not None:
        for path in (folder, ini):
            os.chown(path, account.pw_uid, account.pw_gid)
    process = subprocess.Popen(
        [str(PGBOUNCER), str(ini)],
        user=None if account is None else account.pw_uid,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.enter_context(process)
    stack.callback(process.terminate)
    deadline = time.monotonic() + 60
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return f"postgresql://{url.username}:x@127.0.0.1:{port}/store"
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _ignored_by_the_page() -> str:
    found = re.search(r"^    ignore_startup_parameters = (\S+)$", PAGE.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


async def _refused(dsn: str) -> str | None:
    try:
        connection = await connect(DatabaseUrl.parse(dsn), PATIENT, "test", {"enable_seqscan": "off", **STAYS})
    except StoreUnavailableException as fault:
        named = re.search(r"refuses the start-up parameter `(\w+)`; .* ignore_startup_parameters", fault.message)
        return fault.message if named is None else named[1]
    await connection.close(timeout=30)
    return None


async def test_a_parameter_that_is_refused_is_named_until_none_is_left(pooled: Pooled) -> None:
    """By doing what is said each time; in the end all of them are those of the page."""
    known: list[str] = []
    while refused := await _refused(pooled(**({"ignore_startup_parameters": ",".join(known)} if known else {}))):
        assert refused not in known
        known.append(refused)
    assert sorted(known) == sorted(_ignored_by_the_page().split(","))


async def test_in_session_mode_with_the_page_s_settings_the_feed_works(pooled: Pooled) -> None:
    dsn = pooled(pool_mode="session", ignore_startup_parameters=_ignored_by_the_page())
    feed = PostgresChangeFeed(DatabaseUrl.parse(dsn))
    assert (await feed.poll(0, 10)).head.last_offset == 0
    async with feed.snapshot() as snapshot:
        assert snapshot.head.last_offset == 0
    await feed.close()


async def test_in_transaction_mode_the_pooler_is_named(pooled: Pooled) -> None:
    feed = PostgresChangeFeed(
        DatabaseUrl.parse(pooled(pool_mode="transaction", ignore_startup_parameters=_ignored_by_the_page()))
    )
    await feed.poll(0, 10)
    async with feed.snapshot() as snapshot:
        # It holds the session that the statement was prepared in.
        assert snapshot.head.last_offset == 0
        with pytest.raises(StoreUnavailableException, match="set pool_mode = session"):
            await feed.poll(0, 10)
    await feed.close()


async def test_migrations_go_the_same_way(pooled: Pooled) -> None:
    with pytest.raises(StoreUnavailableException, match=r"refuses the start-up parameter `\w+`"):
        await migrate(DatabaseUrl.parse(pooled()))
    await migrate(DatabaseUrl.parse(pooled(pool_mode="session", ignore_startup_parameters=_ignored_by_the_page())))
