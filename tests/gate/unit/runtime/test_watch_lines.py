"""Slices of encoded lines, and what is kept of long ones that only slow readers still hold."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.runtime.watch import recent
from app.runtime.watch.lines import SLICE_BYTES, Line, Slices
from tests.fakes import FakeStore
from tests.gate.unit.runtime.test_watch import reading
from tests.klamm import until
from tests.virtual_time import in_virtual_time
from tests.world import OPTIONS, authorizer_on, create

SIZES = st.sampled_from([0, 1, 300, SLICE_BYTES - 9, SLICE_BYTES - 8, SLICE_BYTES, 3 * SLICE_BYTES, 100_001])


def frame(line: Line) -> tuple[bytes, bytes, bytes]:
    return b"data: ", line.json, b"\n\n"


@given(st.lists(SIZES, min_size=1, max_size=6))
def test_slices_are_the_lines_and_all_but_the_last_are_full(sizes: list[int]) -> None:
    lines = [Line("transaction", None, bytes([ord("a") + at]) * size) for at, size in enumerate(sizes)]
    slices, written = Slices(lines, frame), list[bytes]()
    while not slices.is_empty:
        written.append(slices.take())
    assert b"".join(written) == b"".join(piece for line in lines for piece in frame(line))
    assert {len(each) for each in written[:-1]} <= {SLICE_BYTES}
    assert 0 < len(written[-1]) <= SLICE_BYTES
    assert [line.sent for line in lines] == [len(line.json) + 8 for line in lines]


@in_virtual_time
async def test_lines_that_only_readers_hold_are_withdrawn_from_the_oldest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "MAX_RECORDS", 60)
    monkeypatch.setattr(recent, "MAX_BYTES", 300_000)
    store = FakeStore()
    held: list[Line] = []
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as live:
        memory = authorizer.watchers.recent
        for number in range(10):
            # Each is some 90 KB, and takes the place of the one before.
            store.commit([create(*(f"{number}-{at}-{'x' * 1_500}" for at in range(50)))])
            await until(lambda: live.offset == store.tables.last_offset)
            part = memory.part(memory.first - 1)
            assert part is not None
            held.extend(part.lines)
    assert not any(line.is_withdrawn for line in held[-4:])
    assert all(line.is_withdrawn for line in held[:-6])
    kept = sum(len(line.json) for line in held[:-1] if not line.is_withdrawn)
    assert 0 < kept <= recent.MAX_BYTES


@in_virtual_time
async def test_nothing_keeps_a_dropped_line_that_no_reader_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "MAX_RECORDS", 300)
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as live:
        memory = authorizer.watchers.recent
        for number in range(4):
            store.commit([create(*(f"{number}-{at}" for at in range(200)))])
            await until(lambda: live.offset == store.tables.last_offset)
        await until(lambda: memory.part(live.offset) is None)
        gc.collect()
        lines = [each for each in gc.get_objects() if isinstance(each, Line) and each.event == "transaction"]
        assert len(lines) <= 2
