"""How many files a request walks through: those with a frame that waits while the store is asked to write."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

from app.core.continuity import KnownHistory
from app.core.mutations import GroupOutcome, Mutation
from tests.fakes import FakeStore
from tests.klamm import ADMIN, in_process

APP = Path(__file__).parents[3] / "app"
BINDING = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "principal": "User:bob",
    "operation": "READ",
    "permission_type": "ALLOW",
}


def files_of(waiting: object) -> Iterator[str]:
    """From the outermost frame of a task to the one that waits."""
    while waiting is not None:
        code = getattr(waiting, "cr_code", None)
        if code is not None and Path(code.co_filename).is_relative_to(APP):
            yield str(Path(code.co_filename).relative_to(APP))
        waiting = getattr(waiting, "cr_await", None)


async def test_create_acls_walks_through_six_files_to_the_store() -> None:
    walked: set[str] = set()

    class Watched(FakeStore):
        async def write(self, mutations: Iterable[Mutation], known: KnownHistory) -> GroupOutcome:
            for task in asyncio.all_tasks():
                files = {*files_of(task.get_coro())}
                if {"rest/routes/acls.py", "runtime/mutator.py"} & files:
                    walked.update(files)
            return await super().write(mutations, known)

    async with in_process(store=Watched()) as service:
        reply = await service.send("/v1/acls", {"context": ADMIN, "bindings": [BINDING]})
        assert reply.status_code == 200
    # store/writing adds two: acl_store and journal.
    assert sorted(walked) == [
        "rest/app.py",
        "rest/http/edge.py",
        "rest/routes/acls.py",
        "runtime/deadlines.py",
        "runtime/mutator.py",
        "runtime/updates.py",
    ]
