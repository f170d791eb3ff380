"""A replica starts from its state file while the source is away, and from nothing else."""

import asyncio
import errno
import os
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.core.kafka.bindings import NewAcl
from app.core.mutations import AlterConfigs, CreateAcls
from app.runtime.readiness import State
from app.runtime.state import keeping as keeping_module
from tests.chains import config, put
from tests.fakes import FakeStore
from tests.gate.unit.runtime.kept import (
    at_once,
    bookmarks_in,
    file_of,
    keeping,
    kept_offset,
    resealed,
    state_in,
    until_kept,
    until_true,
)
from tests.klamm import until
from tests.updates import topic
from tests.virtual_time import EPOCH_S, in_virtual_time, now
from tests.world import acl, create, delete, may_read, names_in, until_ready

KEY = b"k" * 32


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "to_thread", at_once)


async def keep(folder: Path, store: FakeStore, **changes: Any) -> None:  # noqa: ANN401 - of StateOptions
    """A replica runs until the store's state is in the file, and ends."""
    async with keeping(store, state_in(folder, **changes)) as authorizer:
        await until_ready(authorizer)
        await until_true(lambda: authorizer.metrics.state_file_timestamp_seconds > 0)
        await until_kept(folder, store)


def filled(*names: str) -> FakeStore:
    store = FakeStore()
    store.commit([create(*names), AlterConfigs([("audit.level", "WARN")], "User:admin")])
    return store


@in_virtual_time
async def test_a_property_of_a_later_version_is_kept_in_the_file(tmp_path: Path) -> None:
    store = filled("a")
    store.append(store.chained([config("later.property", "on")]))
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until_ready(authorizer)
        await until_true(lambda: authorizer.metrics.state_file_timestamp_seconds > 0)
        store.append(store.chained([config("even.later", "\u00e4")]))
        await until_kept(tmp_path, store)
    store.unreachable = True
    async with keeping(store, state_in(tmp_path), later_s=60) as authorizer:
        await until(lambda: authorizer.readiness.started)
        image = authorizer.image
        assert image.overrides == {"audit.level": "WARN", "later.property": "on", "even.later": "\u00e4"}
        assert (image.hash, image.digest) == (store.tables.hash, store.tables.digest)
        assert authorizer.metrics.configs_unknown == 2


@in_virtual_time
async def test_a_file_with_what_no_acl_can_be_is_refused(tmp_path: Path) -> None:
    store = filled("a")
    store.append(store.chained([put(topic("b", "alice"), 7)]))
    await keep(tmp_path, store)
    store.unreachable = True
    async with keeping(store, state_in(tmp_path), later_s=60) as authorizer:
        await until(lambda: authorizer.metrics.state_file_refusals == 1)
        await asyncio.sleep(5)
        assert not authorizer.readiness.started


@in_virtual_time
async def test_without_its_source_a_replica_starts_from_the_file_and_goes_on_when_the_source_is_back(
    tmp_path: Path,
) -> None:
    store = filled("a", "b")
    await keep(tmp_path, store)
    store.unreachable = True
    async with keeping(store, state_in(tmp_path), later_s=3_600) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert authorizer.readiness.state is State.LAGGING
        assert authorizer.readiness.ready()
        assert authorizer.metrics.image_from_state_file == 1
        assert "from the state file" in authorizer.readiness.checks()[0][2]
        assert 3_600 <= authorizer.readiness.age_s < 3_700
        image = authorizer.image
        assert (image.epoch, image.offset, image.hash) == (store.epoch, 3, store.tables.hash)
        assert (image.digest, image.cluster_id) == (store.tables.digest, "fake-cluster")
        assert image.overrides == {"audit.level": "WARN"}
        assert may_read(authorizer, "a")
        assert not may_read(authorizer, "c")
        before = file_of(tmp_path).read_bytes()
        await asyncio.sleep(60)
        assert file_of(tmp_path).read_bytes() == before

        store.unreachable = False
        store.commit([create("c")])
        await until_ready(authorizer)
        await until(lambda: may_read(authorizer, "c"))
        assert authorizer.metrics.image_loads == 0
        assert authorizer.metrics.image_from_state_file == 0
        assert authorizer.readiness.age_s < 60
        await until_kept(tmp_path, store)


@in_virtual_time
async def test_a_damaged_snapshot_leads_to_the_file_as_an_absent_one_does(tmp_path: Path) -> None:
    store = filled("a")
    await keep(tmp_path, store)
    store.poisoned_snapshot = True
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert may_read(authorizer, "a")
        store.commit([create("c")])
        await until(lambda: may_read(authorizer, "c"))
        await until_ready(authorizer)
        assert (authorizer.metrics.image_loads, authorizer.metrics.image_load_failures) == (0, 1)


@in_virtual_time
async def test_transactions_behind_the_snapshot_are_in_the_file(tmp_path: Path) -> None:
    store = filled("a")
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until_ready(authorizer)
        await until_kept(tmp_path, store)
        inode = file_of(tmp_path).stat().st_ino
        for number in range(30):
            store.commit([create(f"n{number}", f"m{number}"), delete("a")])
        await until_kept(tmp_path, store)
        assert file_of(tmp_path).stat().st_ino == inode
    store.unreachable = True
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert authorizer.image.hash == store.tables.hash
        assert len(names_in(authorizer.image)) == 60


@in_virtual_time
async def test_where_the_source_is_there_the_file_is_not_used(tmp_path: Path) -> None:
    store = filled("a")
    await keep(tmp_path, store)
    store.commit([delete("a")])
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert authorizer.image.offset == store.tables.last_offset
        assert authorizer.metrics.image_from_state_file == 0


async def _refused(folder: Path, store: FakeStore, later_s: float = 0.0, **changes: Any) -> None:  # noqa: ANN401 - of StateOptions
    """A start without the source is not ready, and becomes so by the source."""
    store.unreachable = True
    async with keeping(store, state_in(folder, **changes), later_s) as authorizer:
        await until_true(lambda: authorizer.metrics.image_load_failures > 3)
        assert authorizer.readiness.state is State.LOADING
        assert authorizer.metrics.state_file_refusals <= 1
        store.unreachable = False
        await until_ready(authorizer)
        assert names_in(authorizer.image) == ["a"]


@pytest.mark.parametrize(
    "changes",
    [
        {"later_s": 90_000},
        {"later_s": -90},
        {"cluster_id": "another"},
        {"origin": frozenset({"b" * 64})},
        {"origin": frozenset()},
        {"key": KEY},
        {"max_age_s": 10.0, "later_s": 30},
    ],
)
@in_virtual_time
async def test_a_file_too_old_or_of_another_kind_is_not_used_and_stays(tmp_path: Path, changes: dict[str, Any]) -> None:
    store = filled("a")
    await keep(tmp_path, store)
    await _refused(tmp_path, store, **changes)


@in_virtual_time
async def test_a_key_makes_the_file_worth_nothing_to_who_has_another(tmp_path: Path) -> None:
    store = filled("a")
    await keep(tmp_path, store, key=KEY)
    await _refused(tmp_path, store, key=b"x" * 32)
    await keep(tmp_path, store, key=KEY)
    await _refused(tmp_path, store)
    await keep(tmp_path, store, key=KEY)
    store.unreachable = True
    async with keeping(store, state_in(tmp_path, key=KEY)) as authorizer:
        await until(lambda: authorizer.readiness.started)


@in_virtual_time
async def test_one_address_in_common_is_the_same_source(tmp_path: Path) -> None:
    store = filled("a")
    await keep(tmp_path, store, origin=frozenset({"a" * 64, "b" * 64}))
    store.unreachable = True
    async with keeping(store, state_in(tmp_path, origin=frozenset({"b" * 64, "c" * 64}))) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert may_read(authorizer, "a")


@in_virtual_time
async def test_a_source_that_says_it_is_another_cluster_s_ends_the_file_s_image_at_once(tmp_path: Path) -> None:
    await keep(tmp_path, filled("a"))
    store = FakeStore("another-cluster")
    store.commit([create("b")])
    epoch = store.epoch
    store.unreachable = True
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert may_read(authorizer, "a")
        store.hang("snapshot")
        store.unreachable = False
        await until(lambda: authorizer.readiness.state is State.LOADING)
        assert "snapshot" in store.hanging
        assert authorizer.metrics.image_from_state_file == 0
        assert "from the state file" not in authorizer.readiness.checks()[0][2]
        store.release("snapshot")
        await until_ready(authorizer)
        assert names_in(authorizer.image) == ["b"]
        # It has lost nothing: that position was another cluster's.
        assert store.epoch == epoch


@in_virtual_time
async def test_no_file_is_no_trouble(tmp_path: Path) -> None:
    await _refused(tmp_path, filled("a"))


@in_virtual_time
async def test_a_store_that_was_put_back_meanwhile_is_loaded_anew(tmp_path: Path) -> None:
    store = filled("a")
    older = store.tables.copy()
    store.commit([create("b")])
    await keep(tmp_path, store)
    store.unreachable = True
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert may_read(authorizer, "b")
        store.tables = older
        store.unreachable = False
        await until(lambda: not may_read(authorizer, "b"))
        assert authorizer.metrics.image_loads == 1
        assert authorizer.image.epoch == store.epoch


@in_virtual_time
async def test_a_store_of_another_epoch_is_loaded_anew(tmp_path: Path) -> None:
    store = filled("a")
    await keep(tmp_path, store)
    store.unreachable = True
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        epoch = store.epoch = UUID("ffffffff-ffff-7000-8000-000000000000")
        store.unreachable = False
        await until_ready(authorizer)
        assert authorizer.image.epoch == epoch
        assert authorizer.metrics.image_loads == 1


@in_virtual_time
async def test_a_history_that_was_lost_does_not_stay_in_the_file(tmp_path: Path) -> None:
    store = filled("a")
    older = store.tables.copy()
    store.commit([create("b")])
    async with keeping(store, state_in(tmp_path, rest_for_each=1_000_000_000.0)) as authorizer:
        await until_kept(tmp_path, store)
        store.tables = older
        await until(lambda: not may_read(authorizer, "b"))
        await until_true(lambda: b'"b"' not in file_of(tmp_path).read_bytes())
        store.commit([create("c")])
        await until_kept(tmp_path, store)
        assert str(store.epoch) in bookmarks_in(tmp_path)[-1].token


@in_virtual_time
async def test_a_restored_image_knows_the_epochs_of_its_history(tmp_path: Path) -> None:
    store = filled("a")
    store.begin_epoch()
    store.commit([create("b")])
    await keep(tmp_path, store)
    store.unreachable = True
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert authorizer.image.epochs == store.epochs
        assert len(store.epochs.rows) == 2


@in_virtual_time
async def test_an_epoch_that_begins_is_recorded_and_costs_no_snapshot(tmp_path: Path) -> None:
    store = filled("a")
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until_kept(tmp_path, store)
        inode = file_of(tmp_path).stat().st_ino
        store.begin_epoch()
        store.commit([create("b")])
        await until_kept(tmp_path, store)
        store.begin_epoch()
        await until_true(lambda: str(store.epoch) in bookmarks_in(tmp_path)[-1].token)
        store.begin_epoch()
        store.commit([create("c")])
        await until_kept(tmp_path, store)
        await until_true(lambda: str(store.epoch) in bookmarks_in(tmp_path)[-1].token)
        assert file_of(tmp_path).stat().st_ino == inode
        assert authorizer.metrics.image_loads == 1
    store.unreachable = True
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert authorizer.image.epochs == store.epochs
        assert (authorizer.image.epoch, authorizer.image.offset) == (store.epoch, store.tables.last_offset)


@in_virtual_time
async def test_an_allow_that_has_an_end_does_not_hold_until_the_store_s_time_is_known(tmp_path: Path) -> None:
    store = filled("a")
    ends = store.now() + timedelta(days=1)
    store.commit([CreateAcls([NewAcl(acl("b"), ends.replace(microsecond=0))], "User:admin")])
    await keep(tmp_path, store)
    store.unreachable = True
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert may_read(authorizer, "a")
        assert not may_read(authorizer, "b")
        store.unreachable = False
        await until(lambda: may_read(authorizer, "b"))
        assert authorizer.metrics.image_loads == 0


@in_virtual_time
async def test_the_file_says_when_the_source_was_last_seen(tmp_path: Path) -> None:
    store = filled("a")
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until_kept(tmp_path, store)
        await until_true(lambda: len(bookmarks_in(tmp_path)) > 3)
        store.unreachable = True
        await asyncio.sleep(50)
        ages = [each.age_ms for each in bookmarks_in(tmp_path)]
        assert max(ages) < 12_000
        assert authorizer.metrics.state_file_timestamp_seconds > 0
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert 49 < authorizer.readiness.age_s < 75


@in_virtual_time
async def test_a_file_that_is_begun_while_the_source_is_away_is_as_old_as_the_image(tmp_path: Path) -> None:
    store = filled("a")
    async with keeping(store, state_in(tmp_path)) as first:
        await until_kept(tmp_path, store)
        async with keeping(store, state_in(tmp_path)) as second:
            await until_ready(second)
            store.unreachable = True
            away_at = now()
            await asyncio.sleep(50)
            await first.close()
            await until_true(lambda: second.metrics.state_file_bytes > 0)
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert authorizer.readiness.age_s >= now() - away_at - 1


@in_virtual_time
async def test_a_long_tail_is_made_into_a_new_snapshot(tmp_path: Path) -> None:
    store = filled("a")
    async with keeping(store, state_in(tmp_path, least_tail_bytes=3_000)) as authorizer:
        await until_ready(authorizer)
        await until_kept(tmp_path, store)
        # While it is open its inode is not used again.
        with file_of(tmp_path).open("rb") as first:
            for number in range(100):
                store.commit([create(f"n{number}"), delete(f"n{number}")])
                await until_kept(tmp_path, store)
            assert not os.path.samestat(os.fstat(first.fileno()), file_of(tmp_path).stat())
        assert file_of(tmp_path).stat().st_size < 30_000


@in_virtual_time
async def test_a_transaction_too_long_for_the_file_comes_with_a_new_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping_module, "_LONGEST_TRANSACTION", 2_000)
    store = filled("a")
    async with keeping(store, state_in(tmp_path)):
        await until_kept(tmp_path, store)
        store.commit([create(*(f"n{number}" for number in range(50)))])
        await until_kept(tmp_path, store)
    assert b'"transaction"' not in file_of(tmp_path).read_bytes()


@in_virtual_time
async def test_one_process_writes_and_another_takes_over(tmp_path: Path) -> None:
    store = filled("a")
    async with keeping(store, state_in(tmp_path)) as first:
        await until_kept(tmp_path, store)
        async with keeping(store, state_in(tmp_path)) as second:
            await asyncio.sleep(30)
            assert first.metrics.state_file_bytes > 0
            assert second.metrics.state_file_bytes == 0
            await first.close()
            store.commit([create("b")])
            await until_kept(tmp_path, store)
            assert second.metrics.state_file_bytes > 0


@in_virtual_time
async def test_a_folder_that_was_taken_away_comes_back_with_one_writer(tmp_path: Path) -> None:
    store = filled("a")
    async with keeping(store, state_in(tmp_path)) as first:
        await until_kept(tmp_path, store)
        async with keeping(store, state_in(tmp_path)) as second:
            await until_ready(second)
            shutil.rmtree(tmp_path / "state")
            store.commit([create("b")])
            await until_kept(tmp_path, store)
            faults = first.metrics.state_file_faults + second.metrics.state_file_faults
            await asyncio.sleep(100)
            assert first.metrics.state_file_faults + second.metrics.state_file_faults <= faults + 1
            store.commit([create("c")])
            await until_kept(tmp_path, store)


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO, errno.EROFS])
@in_virtual_time
async def test_a_disk_that_takes_nothing_keeps_nobody_from_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    store, write, is_full = filled("a"), os.write, False

    def half_a_write(descriptor: int, data: memoryview) -> int:
        if is_full and len(data) > 20:
            return write(descriptor, data[: len(data) // 2])
        if is_full:
            raise OSError(fault, os.strerror(fault))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", half_a_write)
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until_kept(tmp_path, store)
        is_full = True
        store.commit([create("b")])
        await until_true(lambda: authorizer.metrics.state_file_faults > 2)
        assert may_read(authorizer, "b")
        assert authorizer.readiness.state is State.READY
        is_full = False
        store.commit([create("c")])
        await until_kept(tmp_path, store)
    assert sorted(each.name for each in (tmp_path / "state").iterdir()) == ["image.ndjson", "writer.lock"]


@pytest.mark.parametrize("key", [None, KEY], ids=["sums", "key"])
@in_virtual_time
async def test_what_is_no_file_of_this_user_is_neither_read_nor_waited_for(tmp_path: Path, key: bytes | None) -> None:
    store = filled("a")
    await keep(tmp_path, store, key=key)
    image = file_of(tmp_path)
    for spoil in (_link, _pipe, _folder, _shared):
        spoil(image)
        await _refused(tmp_path, store, key=key)
        if image.is_dir() and not image.is_symlink():
            image.rmdir()
        await keep(tmp_path, store, key=key)
        assert image.stat(follow_symlinks=False).st_mode & 0o777 == 0o600
    assert kept_offset(tmp_path) == store.tables.last_offset


@pytest.mark.parametrize("key", [None, KEY], ids=["sums", "key"])
@in_virtual_time
async def test_another_user_s_file_is_not_read(
    tmp_path: Path, key: bytes | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = filled("a")
    await keep(tmp_path, store, key=key)
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    await _refused(tmp_path, store, key=key)
    assert f"but Klamm runs as user id {user}" in _whys(caplog)[0]


@pytest.mark.parametrize("key", [None, KEY], ids=["sums", "key"])
@in_virtual_time
async def test_a_folder_that_others_may_replace_or_write_to_is_neither_read_nor_written(
    tmp_path: Path, key: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    store = filled("a")
    await keep(tmp_path, store, key=key)
    folder = file_of(tmp_path).parent
    for mode in (0o770, 0o702, 0o1777):
        folder.chmod(mode)
        before = file_of(tmp_path).read_bytes()
        await _refused(tmp_path, store, key=key)
        assert f"(mode {mode:04o})" in _whys(caplog)[-1]
        assert file_of(tmp_path).read_bytes() == before
    folder.chmod(0o755)
    folder.symlink_to(folder.rename(folder.with_suffix(".elsewhere")))
    await _refused(tmp_path, store, key=key)
    assert "is a symbolic link; name the folder" in _whys(caplog)[-1]
    assert file_of(tmp_path).read_bytes() == before
    folder.unlink()
    folder.with_suffix(".elsewhere").rename(folder)
    store.unreachable = True
    async with keeping(store, state_in(tmp_path, key=key)) as authorizer:
        await until(lambda: authorizer.readiness.started)


@in_virtual_time
async def test_a_clock_that_went_back_is_not_hidden_by_the_age_that_the_state_had_by_then(tmp_path: Path) -> None:
    store = filled("a")
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until_kept(tmp_path, store)
    made = resealed(re.sub(rb'"age_ms":\d+', b'"age_ms":3600000', file_of(tmp_path).read_bytes()))
    file_of(tmp_path).write_bytes(made)
    store.unreachable = True
    async with keeping(store, state_in(tmp_path), later_s=3_600) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert 7_200 <= authorizer.readiness.age_s < 7_300
    file_of(tmp_path).write_bytes(made)
    await _refused(tmp_path, store, later_s=-3_600)


@in_virtual_time
async def test_the_age_counts_on_while_the_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled("a")
    await keep(tmp_path, store)

    async def slowly(work: Callable[..., Any], *arguments: object, **named: object) -> object:
        if work.__name__ in ("read", "readlines"):
            await asyncio.sleep(9)
        return await at_once(work, *arguments, **named)

    monkeypatch.setattr(asyncio, "to_thread", slowly)
    store.unreachable = True
    written_at = bookmarks_in(tmp_path)[-1]
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until(lambda: authorizer.readiness.started)
        assert isinstance(written_at.at, datetime)
        assert authorizer.readiness.age_s >= EPOCH_S + now() - written_at.at.timestamp() + written_at.age_ms / 1000


@pytest.mark.parametrize("step", ["open_image", "read"])
@in_virtual_time
async def test_a_disk_that_never_answers_keeps_nobody_from_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = filled("a")
    await keep(tmp_path, store)

    async def never(work: Callable[..., Any], *arguments: object, **named: object) -> object:
        if work.__name__ == step:
            await asyncio.sleep(1_000_000)
        return await at_once(work, *arguments, **named)

    monkeypatch.setattr(asyncio, "to_thread", never)
    await _refused(tmp_path, store)


@in_virtual_time
async def test_who_writes_the_file_is_no_reader_among_the_others(tmp_path: Path) -> None:
    store = filled("a")
    async with keeping(store, state_in(tmp_path)) as authorizer:
        await until_ready(authorizer)
        await until_true(lambda: authorizer.metrics.state_file_timestamp_seconds > 0)
        store.commit([create("b")])
        await until_kept(tmp_path, store)
        assert authorizer.metrics.watch_readers == 0


def _whys(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(each)["why"] for each in caplog.records if each.getMessage() == "state_file_refused"]


def _link(image: Path) -> None:
    image.symlink_to(image.rename(image.with_suffix(".elsewhere")))


def _pipe(image: Path) -> None:
    image.unlink()
    os.mkfifo(image)


def _folder(image: Path) -> None:
    image.unlink()
    image.mkdir()


def _shared(image: Path) -> None:
    image.chmod(0o660)
