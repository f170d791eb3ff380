"""A small state file whose bytes are changed, before and while it is read, or that is cut: it is refused, or it is
a state that was true.
"""

import asyncio
import io
import re
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from app.core.digest import MODULUS, acl_digest
from app.core.epochs import Epoch, Epochs
from app.core.kafka.bindings import StandardAcl
from app.core.mutations import AlterConfigs, CreateAcls, Mutation
from app.formats.clock import Clock
from app.metrics.declared import Metrics
from app.runtime.options import RuntimeOptions
from app.runtime.state import reading as reading_module
from app.runtime.state.files import StateFolder
from app.runtime.state.reading import Restored, restore
from tests.fakes import FakeStore
from tests.gate.unit.runtime.kept import at_once, file_of, keeping, resealed, state_in, until_kept
from tests.updates import new
from tests.virtual_time import VirtualTimeLoop
from tests.world import STARTUP, acl, create, delete, names_in, until_ready

PATTERNS = (0x01, 0x04, 0x20, 0x80, 0xFF)
KEY = b"k" * 32
CHANGES = (create("c"), delete("a"), CreateAcls(new([acl("d")]), "User:admin", comment="TICKET-1"))
State = tuple[str, str, tuple[str, ...], str]


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "to_thread", at_once)


def recorded(folder: Path, key: bytes | None, *changes: Mutation) -> bytes:
    """A file with a snapshot, the same at each call, and transactions behind it."""

    async def record() -> None:
        store = FakeStore()
        store.epoch = UUID(int=7)
        acls = [StandardAcl(UUID(int=number), acl(name)) for number, name in enumerate("ab")]
        store.tables.acls = {each.binding.natural_key: each for each in acls}
        store.tables.digest = sum(map(acl_digest, acls)) % MODULUS
        store.commit([AlterConfigs([("audit.level", "WARN")], "User:admin")])
        async with keeping(store, state_in(folder, key=key)) as authorizer:
            await until_ready(authorizer)
            await until_kept(folder, store)
            for each in changes or CHANGES:
                store.commit([each])
                await until_kept(folder, store)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(record())
    return file_of(folder).read_bytes()


class Trial:
    """What a start makes of a file; the wall clock stands still, long after the file was written."""

    def __init__(self, folder: Path, key: bytes | None) -> None:
        self.metrics = Metrics()
        self._image = file_of(folder)
        state = state_in(folder, key=key)
        self._options = RuntimeOptions(state=state, clock=Clock(wall=lambda: 1_800_001_000.0))
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()

    def of(self, content: bytes) -> Restored | None:
        self._image.write_bytes(content)
        return self._runner.run(restore(self._options, STARTUP, self.metrics))


def state_of(restored: Restored) -> State:
    image = restored.image
    names = (*names_in(image), *image.overrides.values(), str(image.cluster_id))
    return str(image.token), image.hash.hex(), names, f"{restored.age_s:.3f}"


@pytest.fixture(params=[None, KEY], ids=["sums", "key"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterable[tuple[bytes, Trial, set[State]]]:
    """The bytes, what tries them, and every state that the file is at one of its seals."""
    content = recorded(tmp_path, request.param)
    trial = Trial(tmp_path, request.param)
    true: set[State] = set()
    for at in ends_of(content):
        restored = trial.of(content[:at])
        if restored is not None:
            true.add(state_of(restored))
    assert len(true) >= 3
    assert {token.rpartition(":")[2] for token, *_ in true} >= {"1", "2", "3", "4"}
    yield content, trial, true
    trial.close()


def ends_of(content: bytes) -> list[int]:
    """Where its lines end."""
    return [at + 1 for at, byte in enumerate(content) if byte == 0x0A]


def holds(restored: Restored | None, true: set[State]) -> bool:
    return restored is None or state_of(restored) in true


def changed(content: bytes, at: int, pattern: int) -> bytes:
    return content[:at] + bytes([content[at] ^ pattern]) + content[at + 1 :]


def test_some_bytes_changed(file: tuple[bytes, Trial, set[State]]) -> None:
    (content, trial, true), draw = file, Random(4711)
    drawn = [(draw.randrange(len(content)), draw.choice(PATTERNS)) for _ in range(100)]
    assert not [each for each in drawn if not holds(trial.of(changed(content, *each)), true)]
    assert trial.metrics.state_file_refusals > 0


def test_some_lengths_cut(file: tuple[bytes, Trial, set[State]]) -> None:
    (content, trial, true), draw = file, Random(4711)
    assert all(holds(trial.of(content[: draw.randrange(len(content))]), true) for _ in range(40))
    newest = trial.of(content)
    torn = trial.of(content + b'{"type":"transaction","tok')
    assert newest is not None
    assert torn is not None
    assert state_of(torn) == state_of(newest)


def test_lines_lost_doubled_and_moved(file: tuple[bytes, Trial, set[State]]) -> None:
    content, trial, true = file
    lines = content.splitlines(keepends=True)
    for at in range(len(lines)):
        for other in (lines[:at] + lines[at + 1 :], lines[: at + 1] + lines[at:], [*lines[at:], *lines[:at]]):
            assert holds(trial.of(b"".join(other)), true)


def test_a_fault_that_nobody_expected_is_damage_like_any_other(tmp_path: Path) -> None:
    trial = Trial(tmp_path, None)
    # No moment of UTC.
    moment = b'"expires_at":"9999-12-31T23:59:59-14:00"'
    assert trial.of(resealed(recorded(tmp_path, None).replace(b'"expires_at":null', moment))) is None
    assert trial.metrics.state_file_refusals == 1
    assert (tmp_path / "state" / "image.ndjson.refused").exists()
    trial.close()


def test_a_snapshot_without_a_bookmark_does_not_say_how_old_it_is(tmp_path: Path) -> None:
    trial = Trial(tmp_path, None)
    content = recorded(tmp_path, None)
    without = b"".join(each for each in content.splitlines(keepends=True) if b'{"type":"bookmark"' not in each)
    assert b'{"type":"synced"' in without
    assert trial.of(resealed(without)) is None
    trial.close()


def test_the_epochs_of_the_history_are_in_the_file(tmp_path: Path) -> None:
    trial = Trial(tmp_path, None)
    content = recorded(tmp_path, None)
    before, later = UUID(int=7), UUID("0199c2c5-0000-7000-8000-000000000000")
    # As it is recorded where an epoch begins behind the second record.
    for offset in (3, 4):
        content = content.replace(f'"{before}:{offset}"'.encode(), f'"{later}:{offset}"'.encode())
    at = content.index(b'{"type":"transaction","token":"%b:3"' % str(later).encode())

    def with_line(first_offset: int) -> bytes:
        line = b'{"type":"epoch","epoch":"%b","first_offset":%d}\n' % (str(later).encode(), first_offset)
        return resealed(content[:at] + line + content[at:])

    restored = trial.of(with_line(2))
    assert restored is not None
    assert restored.image.epochs == Epochs((Epoch(before, 0), Epoch(later, 2)))
    assert str(restored.image.token) == f"{later}:4"
    for wrong in (with_line(1), with_line(3), resealed(content)):
        assert trial.of(wrong) is None
    trial.close()


def test_a_file_of_the_version_before_is_read_and_one_of_a_later_version_stays(tmp_path: Path) -> None:
    trial = Trial(tmp_path, None)
    content = recorded(tmp_path, None)
    header, _, rest = content.partition(b"\n")
    assert header.startswith(b'{"type":"state","version":2,')
    now, before = trial.of(content), trial.of(resealed(rest))
    assert now is not None
    assert before is not None
    assert state_of(before) == state_of(now)
    assert trial.of(resealed(content.replace(b'"version":2', b'"version":3', 1))) is None
    assert file_of(tmp_path).exists()
    trial.close()


class ChangedWhileRead(io.FileIO):
    """Somebody else writes other bytes into the file, in place, right before the `number`th time that it is read."""

    def __init__(self, path: Path, content: bytes, number: int) -> None:
        super().__init__(path)
        self._path, self._content, self._left = path, content, number

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever io hands in
        self._left -= 1
        if not self._left:
            with self._path.open("r+b") as file:
                file.write(self._content)
        return super().readinto(buffer)


def test_what_is_changed_while_it_is_read_is_never_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = recorded(tmp_path, KEY)
    forged = recorded(tmp_path, None, AlterConfigs([("super.users", "User:mallory")], "User:admin"))
    opening = content.partition(b"\n")[2].partition(b"\n")[0]
    assert opening in forged
    padding = b'{"type":"padding","for":"%b"}\n'
    forged += padding % (b"." * (len(content) - len(forged) - len(padding) + 2))
    assert len(forged) == len(content)
    trial, number, times = Trial(tmp_path, KEY), 1, 0
    true = {state_of(each) for at in ends_of(content) if (each := trial.of(content[:at])) is not None}

    def opened(folder: StateFolder, **_: object) -> io.BufferedReader:
        return io.BufferedReader(ChangedWhileRead(folder.image, forged, number), 256)

    monkeypatch.setattr(StateFolder, "open_image", opened)
    for number in range(1, len(content) // 64):  # noqa: B007 - `opened` reads it
        restored = trial.of(content)
        assert holds(restored, true)
        times += restored is None
    assert times > 5
    trial.close()


@pytest.mark.parametrize(
    "tail",
    [
        b'{"type":"transaction","token":"no such thing"}\n',
        b"\0" * 4_096 + b"\n",
        b'{"type":"acls","acls":[]}\n',
        b'{"type":"configs","configs":{"super.users":"User:mallory"}}\n',
    ],
)
def test_what_no_seal_follows_is_not_even_looked_at(tmp_path: Path, tail: bytes) -> None:
    content = recorded(tmp_path, KEY)
    trial = Trial(tmp_path, KEY)
    whole, torn = trial.of(content), trial.of(content + tail)
    assert whole is not None
    assert torn is not None
    assert state_of(torn) == state_of(whole)
    trial.close()


def test_a_tail_without_any_seal_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "_MOST_UNSEALED_BYTES", 100_000, raising=False)
    content = recorded(tmp_path, KEY)
    trial = Trial(tmp_path, KEY)
    assert trial.of(content + b'{"type":"later"}\n' * 10_000) is None
    trial.close()


@pytest.mark.parametrize("field", ["first_offset", "last_offset", "acl_count", "age_ms"])
def test_a_number_out_of_all_bounds_is_damage_like_any_other(tmp_path: Path, field: str) -> None:
    content = recorded(tmp_path, None)
    trial = Trial(tmp_path, None)
    for number in (-1, 2**63 - 1, 2**63, 2**64 - 1):
        forged = resealed(re.sub(rf'"{field}":\d+'.encode(), f'"{field}":{number}'.encode(), content))
        assert trial.of(forged) is None
    assert trial.metrics.state_file_refusals == 4
    assert (tmp_path / "state" / "image.ndjson.refused").exists()
    trial.close()


@pytest.mark.parametrize("file", [None], indirect=True, ids=["sums"])
@pytest.mark.parametrize(
    "change",
    [
        {"User:alice": b"User:mallory"},
        {"TICKET-1": b"TICKET-2"},
        {"TOPIC": b"TOPPIC"},
        {"transaction": b"transfusion"},
        {'"configs":{': b'"configs":{"super.users":"User:mallory",'},
        {'"at":': b'"xx":'},
        {'"age_ms":': b'"age_ms":-'},
        {'"digest":"': b'"digest":"0'},
        {'"hash":"': b'"hash":"z'},
        {"acls": b"cals"},
        {"synced": b"synked"},
        {'"recorded_at":"2026': b'"recorded_at":"2025'},
    ],
    ids=str,
)
def test_chain_and_digest_find_what_the_seals_can_not(
    file: tuple[bytes, Trial, set[State]], change: dict[str, bytes]
) -> None:
    content, trial, true = file
    assert resealed(content) == content
    forged = resealed(content, **change)
    assert forged != content
    restored = trial.of(forged)
    assert restored is None or state_of(restored)[:3] in {each[:3] for each in true}


def test_a_seal_with_a_key_is_no_sum_and_a_sum_no_seal_with_a_key(tmp_path: Path) -> None:
    for key, other in ((KEY, None), (None, KEY)):
        content = recorded(tmp_path, key)
        trial = Trial(tmp_path, other)
        assert trial.of(content) is None
        trial.close()


def test_a_damaged_file_is_set_aside_and_said_once(tmp_path: Path) -> None:
    content = recorded(tmp_path, None)
    trial = Trial(tmp_path, None)
    assert trial.of(changed(content, 100, 1)) is None
    trial.close()
    assert not file_of(tmp_path).exists()
    assert (tmp_path / "state" / "image.ndjson.refused").read_bytes() == changed(content, 100, 1)
