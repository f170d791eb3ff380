"""An unexpected fault with one reader of watch is that reader's own."""

from dataclasses import replace

from app.runtime.watch.recent import Part
from tests.fakes import FakeStore
from tests.unit.runtime.test_watch import SNAPSHOT, equals, reading
from tests.unit.runtime.world import create, serving, until
from tests.virtual_time import in_virtual_time, now


@in_virtual_time
async def test_a_reader_that_cannot_be_pushed_to_holds_up_no_other() -> None:
    store = FakeStore()

    def broken(_: Part) -> bool:
        raise RuntimeError("a fault")

    async with (
        serving(store) as authorizer,
        reading(authorizer, replace(SNAPSHOT, push=broken)) as first,
        reading(authorizer) as second,
    ):
        await until(lambda: first.offset == second.offset == 0)
        for number in range(1, 4):
            began = now()
            store.commit([create(f"t{number}")])
            await until(lambda: first.offset == second.offset == store.tables.last_offset)
            assert now() - began < 0.1, "it came with a bookmark's time only"
        assert equals(first.seen, store)
        assert equals(second.seen, store)
