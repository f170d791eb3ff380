"""`klamm restore`: a store that was put back gets a later epoch, and a copy of it a cluster id of its own."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.cli.entry_point import main
from app.core.continuity import KnownHistory
from app.core.epochs import Standing, is_later
from app.core.kafka.errors import InconsistentClusterIdException, StoreUnavailableException
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from app.store.writing.restored import begin_epoch
from tests.database_roles import new_store_with_roles
from tests.postgres import Postgres
from tests.surroundings import of_a_command
from tests.updates import create, topic


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    with of_a_command(monkeypatch, tmp_path):
        yield monkeypatch


async def test_each_call_begins_a_later_epoch(
    store_url: str, store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    written = await store.write([create(topic("a"))], KnownHistory())
    url = DatabaseUrl.parse(store_url)

    first, second = await begin_epoch(url), await begin_epoch(url)

    assert is_later(first.token.epoch, written.epoch)
    assert is_later(second.token.epoch, first.token.epoch)
    head = (await feed.poll(1, 1)).head
    assert (head.epochs, head.cluster_id) == (second.epochs, second.cluster_id)
    assert await feed.standing_of(Token(written.epoch, 1)) is Standing.PART
    assert await feed.standing_of(Token(written.epoch, 2)) is Standing.LOST
    why = "SELECT why FROM acl_epoch_v1 ORDER BY number DESC LIMIT 1"
    assert await database.fetchval(why) == "klamm restore"


async def test_a_copy_gets_a_cluster_id_of_its_own(store_url: str, feed: PostgresChangeFeed) -> None:
    url = DatabaseUrl.parse(store_url)
    before = (await feed.poll(0, 1)).head
    with pytest.raises(InconsistentClusterIdException, match=f"belongs to cluster `{before.cluster_id}`, not to `x`"):
        await begin_epoch(url, cluster_id="x")
    assert (await feed.poll(0, 1)).head == before

    assert (await begin_epoch(url, cluster_id=before.cluster_id, new_cluster_id="staging")).cluster_id == "staging"

    after = (await feed.poll(0, 1)).head
    assert after.cluster_id == "staging"
    assert is_later(after.epoch, before.epoch)


async def test_only_the_owner_gives_a_cluster_id(postgres: Postgres) -> None:
    roles = await new_store_with_roles(postgres.dsn, "restore_roles")
    assert (await begin_epoch(DatabaseUrl.parse(roles.serve))).last_offset == 0
    with pytest.raises(StoreUnavailableException, match="lacks a privilege"):
        await begin_epoch(DatabaseUrl.parse(roles.serve), new_cluster_id="staging")
    assert (await begin_epoch(DatabaseUrl.parse(roles.migrate), new_cluster_id="staging")).cluster_id == "staging"


def test_the_command_says_what_it_has_begun(
    store_url: str, surroundings: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    surroundings.setenv("KLAMM_DATABASE_URL", store_url)
    assert main(["restore"]) == 0
    said = capsys.readouterr().out
    assert " has begun after offset 0; tokens of older epochs are good up to there" in said
    # What the environment says of the original does not hold for the copy.
    surroundings.setenv("KLAMM_CLUSTER_ID", "production")
    assert main(["restore"]) == 1
    assert f"user `{urlsplit(store_url).username}`: this store belongs to cluster" in capsys.readouterr().err
    assert main(["restore", "--cluster-id", "staging"]) == 0
    assert capsys.readouterr().out.startswith("cluster staging: epoch ")
    assert main(["restore", "--cluster-id", " "]) == 2
