"""A store put back under replicas that run: no acknowledgement may carry a token that the lost history has passed."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from uuid import UUID

import pytest
from asyncpg import DeadlockDetectedError

from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import OffsetNotAvailableException, RequestTimedOutException, TokenEpochMismatchException
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.runtime.authorizer import Authorizer
from app.runtime.options import RuntimeOptions
from app.store.embedded.server import EmbeddedPostgres
from app.store.engine import Connection
from app.store.migrate import migrate
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.klamm import until
from tests.postgres import new_folder
from tests.proof.e2e.clusters import copy
from tests.updates import new
from tests.world import ROOT, STARTUP, acl, may_read, named

ROUNDS = 40
PATIENCE_S = 60.0
TABLES = ("acl_epoch", "acl_head", "acl", "acl_record", "config")

Update = Callable[[Authorizer], Awaitable[Token]]


async def delete_what_was_kept(authorizer: Authorizer) -> Token:
    return (await authorizer.updates.delete_acls(ROOT, [named("kept")], PATIENCE_S))[1]


async def delete_what_was_lost(authorizer: Authorizer) -> Token:
    return (await authorizer.updates.delete_acls(ROOT, [named("lost")], PATIENCE_S))[1]


async def unset_what_was_kept(authorizer: Authorizer) -> Token:
    return (await authorizer.updates.alter_configs(ROOT, [("super.users", None)], PATIENCE_S))[1]


async def unset_what_was_lost(authorizer: Authorizer) -> Token:
    return (await authorizer.updates.alter_configs(ROOT, [("allow.everyone.if.no.acl.found", None)], PATIENCE_S))[1]


KINDS: list[tuple[Update, str, str]] = [
    (delete_what_was_kept, "User:alice", "kept"),
    (delete_what_was_lost, "User:bob", "lost"),
    (unset_what_was_kept, "User:carol", "of nobody"),
    (unset_what_was_lost, "User:erin", "of nobody"),
]
"""An update, and who may not read what from then on; the second and the fourth write nothing."""


@asynccontextmanager
async def replicas_on(dsn: str) -> AsyncIterator[list[Authorizer]]:
    async with AsyncExitStack() as stack:
        replicas = []
        for _ in range(2):
            options = RuntimeOptions(request_timeout_s=PATIENCE_S)
            startup: AuthorizerConfig = STARTUP
            authorizer = Authorizer(
                PostgresAclStore(DatabaseUrl.parse(dsn)), PostgresChangeFeed(DatabaseUrl.parse(dsn)), startup, options
            )
            authorizer.open()
            stack.push_async_callback(authorizer.close)
            replicas.append(authorizer)
        await until(lambda: all(each.image.loading_complete for each in replicas), "both have loaded")
        yield replicas


async def write_what_is_kept(authorizer: Authorizer) -> None:
    await authorizer.updates.create_acls(ROOT, new([acl("kept", "User:alice")]), PATIENCE_S)
    await authorizer.updates.alter_configs(ROOT, [("super.users", "User:admin;User:carol")], PATIENCE_S)


async def write_what_will_be_lost(replicas: list[Authorizer], number: int) -> Token:
    """The token of the lost history's end, which every replica has reached."""
    one = replicas[number % len(replicas)]
    await one.updates.create_acls(
        ROOT, new([acl("lost", "User:bob"), *(acl(f"filler-{each}") for each in range(20))]), PATIENCE_S
    )
    _, token = await one.updates.alter_configs(ROOT, [("allow.everyone.if.no.acl.found", "true")], PATIENCE_S)
    for each in replicas:
        await each.wait_for(str(token))
    return token


async def one_round(
    replicas: list[Authorizer], number: int, put_back: Callable[[asyncio.Event], Awaitable[None]], epochs: set[UUID]
) -> bool:
    """Whether an acknowledgement came that could be judged, and was."""
    lost = await write_what_will_be_lost(replicas, number)
    epochs.add(lost.epoch)
    update, principal, topic = KINDS[number % len(KINDS)]
    acknowledging, other = replicas if number // len(KINDS) % 2 else reversed(replicas)
    down = asyncio.Event()
    restore = asyncio.ensure_future(put_back(down))
    begun = asyncio.ensure_future(down.wait())
    await asyncio.wait({restore, begun}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
    if not begun.done():
        begun.cancel()
        await restore
    waiting = [asyncio.create_task(acknowledging.updates.create_acls(ROOT, new([acl(f"new-{number}")]), PATIENCE_S))]
    waiting.append(asyncio.create_task(other.updates.create_acls(ROOT, new([acl(f"newer-{number}")]), PATIENCE_S)))
    judged = asyncio.create_task(judge(update(acknowledging), (other, acknowledging), principal, topic))
    await restore
    token = await judged
    done = await asyncio.gather(*waiting, return_exceptions=True)
    tokens = [] if token is None else [token]
    for came in done:
        if isinstance(came, BaseException):
            assert isinstance(came, RequestTimedOutException), came
        else:
            tokens.append(came[1])
    assert not {each.epoch for each in tokens} & epochs, "an epoch came back"
    for replica in replicas:
        with pytest.raises(TokenEpochMismatchException):
            await replica.wait_for(str(lost))
    return token is not None


async def judge(update: Awaitable[Token], replicas: tuple[Authorizer, ...], principal: str, topic: str) -> Token | None:
    try:
        token = await update
    except RequestTimedOutException:
        return None
    for each in replicas:
        try:
            await each.wait_for(str(token))
        except (TokenEpochMismatchException, OffsetNotAvailableException):
            continue
        assert not may_read(each, topic, principal), f"ALLOWED at {token}, image at {each.image.token}"
    return token


@pytest.mark.parametrize("how", ["row by row", "emptied first", "head replaced"])
async def test_tables_put_back_in_place(store_url: str, database: Connection, how: str) -> None:
    async with replicas_on(store_url) as replicas:
        await write_what_is_kept(replicas[0])
        for table in TABLES:
            await database.execute(f"CREATE TABLE copy_of_{table} AS TABLE {table}")

        async def put_back(down: asyncio.Event) -> None:
            while not down.is_set():
                # A reader may hold one of the tables and wait for another that was emptied.
                with suppress(DeadlockDetectedError):
                    async with database.transaction():
                        await database.execute("SELECT FROM acl_head FOR UPDATE")
                        for table in TABLES:
                            await put_back_table(database, table, how)
                        down.set()
                        await until_writers_wait(database, len(replicas))

        epochs: set[UUID] = set()
        judged = [await one_round(replicas, number, put_back, epochs) for number in range(ROUNDS)]
        assert sum(judged) > ROUNDS / 2


async def put_back_table(database: Connection, table: str, how: str) -> None:
    if table == "acl_head" and how != "head replaced":
        columns = "epoch, last_offset, hash, log_start_offset, system_identifier, timeline"
        await database.execute(f"UPDATE acl_head SET ({columns}) = (SELECT {columns} FROM copy_of_acl_head)")  # noqa: S608 - names of this file
        return
    await database.execute(f"TRUNCATE {table}" if how == "emptied first" else f"DELETE FROM {table}")  # noqa: S608 - the same
    await database.execute(f"INSERT INTO {table} SELECT * FROM copy_of_{table}")  # noqa: S608 - the same


async def until_writers_wait(database: Connection, number: int) -> None:
    """Until so many writers stand in line; those that gave up come again."""
    waiting = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'klamm writer' AND wait_event_type = 'Lock'"""
    async with asyncio.timeout(PATIENCE_S):
        while await database.fetchval(waiting) < number:
            await database.execute("SELECT pg_stat_clear_snapshot()")
            await asyncio.sleep(0.01)


@pytest.mark.timeout(900)
def test_a_data_directory_put_back_again_and_again(tmp_path: Path) -> None:
    with EmbeddedPostgres(new_folder(tmp_path / "data")) as server:
        asyncio.run(migrate(DatabaseUrl.parse(server.dsn)))
        cluster, backup = tmp_path / "data" / "postgres", tmp_path / "backup"

        def put_back_directory() -> None:
            shutil.rmtree(cluster)
            copy(backup, cluster)
            server.start()

        def back_up() -> None:
            server.stop()
            copy(cluster, backup)
            server.start()

        async def rounds(ask: AskMain) -> int:
            async def put_back(down: asyncio.Event) -> None:
                await ask(server.stop)
                down.set()
                await ask(put_back_directory)

            async with replicas_on(server.dsn) as replicas:
                await write_what_is_kept(replicas[0])
                await ask(back_up)
                epochs: set[UUID] = set()
                return sum([await one_round(replicas, number, put_back, epochs) for number in range(ROUNDS)])

        assert beside_main(rounds) > ROUNDS / 2


AskMain = Callable[[Callable[[], None]], Awaitable[None]]


def beside_main(work: Callable[[AskMain], Coroutine[Any, Any, int]]) -> int:
    """What comes of the work, in a loop of another thread: only the main one may start a server."""
    asked: SimpleQueue[tuple[Callable[[], None], Future[None]] | None] = SimpleQueue()

    async def ask(job: Callable[[], None]) -> None:
        done: Future[None] = Future()
        asked.put((job, done))
        await asyncio.wrap_future(done)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(lambda: asyncio.run(work(ask)))
        working.add_done_callback(lambda _: asked.put(None))
        while (order := asked.get()) is not None:
            job, done = order
            try:
                job()
            except BaseException as fault:
                done.set_exception(fault)
                raise
            done.set_result(None)
        return working.result()
