"""Every byte of a small state file changed, and every length cut: it is refused, or it is a state that was true."""

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from app.core.mutations import AlterConfigs, CreateAcls
from app.formats.feed_seals import Seals
from app.metrics.declared import Metrics
from app.runtime.options import StateOptions
from app.runtime.state.reading import Restored, restore
from tests.fakes import FakeStore
from tests.unit.runtime.kept import at_once, file_of, keeping, state_in, until_kept
from tests.unit.runtime.world import STARTUP, acl, create, delete, names_in, running, until_ready
from tests.updates import new
from tests.virtual_time import VirtualTimeLoop

PATTERNS = (0x01, 0x04, 0x20, 0x80, 0xFF)
KEY = b"k" * 32
State = tuple[str, str, tuple[str, ...], str]


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "to_thread", at_once)


def recorded(folder: Path, key: bytes | None) -> bytes:
    """A file with a snapshot and some transactions behind it."""

    async def record() -> None:
        store = FakeStore()
        store.commit([create("a", "b"), AlterConfigs([("audit.level", "WARN")], "User:root")])
        async with running(keeping(store, state_in(folder, key=key))) as authorizer:
            await until_ready(authorizer)
            await until_kept(folder, store)
            store.commit([create("c"), delete("a")])
            await until_kept(folder, store)
            store.commit([CreateAcls(new([acl("d")]), "User:root", comment="TICKET-1")])
            await until_kept(folder, store)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(record())
    return file_of(folder).read_bytes()


class Trial:
    """What a start makes of a file; the wall clock stands still, long after the file was written."""

    def __init__(self, folder: Path, key: bytes | None) -> None:
        self.metrics = Metrics()
        self._state = StateOptions(path=folder / "state", key=key, wall_clock=lambda: 1_800_001_000.0)
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()

    def of(self, content: bytes) -> Restored | None:
        (self._state.path / "image.ndjson").write_bytes(content)
        return self._runner.run(restore(self._state, STARTUP, self.metrics))


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
    for at in [at for at, byte in enumerate(content) if byte == 0x0A]:
        restored = trial.of(content[: at + 1])
        if restored is not None:
            true.add(state_of(restored))
    assert len(true) >= 3
    assert {token.rpartition(":")[2] for token, *_ in true} >= {"3", "5", "6"}
    yield content, trial, true
    trial.close()


def holds(restored: Restored | None, true: set[State]) -> bool:
    return restored is None or state_of(restored) in true


def changed(content: bytes, at: int, pattern: int) -> bytes:
    return content[:at] + bytes([content[at] ^ pattern]) + content[at + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_byte_changed(file: tuple[bytes, Trial, set[State]], pattern: int) -> None:
    content, trial, true = file
    wrong = [at for at in range(len(content)) if not holds(trial.of(changed(content, at, pattern)), true)]
    assert not wrong


def test_some_bytes_changed(file: tuple[bytes, Trial, set[State]]) -> None:
    content, trial, true = file
    drawn = [(random.randrange(len(content)), random.choice(PATTERNS)) for _ in range(100)]
    assert not [each for each in drawn if not holds(trial.of(changed(content, *each)), true)]
    assert trial.metrics.state_file_refusals > 0


@pytest.mark.slow
def test_every_length_cut(file: tuple[bytes, Trial, set[State]]) -> None:
    content, trial, true = file
    assert not [size for size in range(len(content)) if not holds(trial.of(content[:size]), true)]


def test_some_lengths_cut(file: tuple[bytes, Trial, set[State]]) -> None:
    content, trial, true = file
    assert all(holds(trial.of(content[: random.randrange(len(content))]), true) for _ in range(40))
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


def resealed(content: bytes, **changes: bytes) -> bytes:
    """As somebody would who knows the format, but no key: bytes replaced, and every seal made anew."""
    for before, after in changes.items():
        content = content.replace(before.encode(), after)
    seals, made = Seals(None), b""
    for line in content.splitlines(keepends=True):
        if line.startswith(b'{"type":"seal"'):
            made += seals.next()
        else:
            seals.cover(line)
            made += line
    return made


@pytest.mark.long
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
