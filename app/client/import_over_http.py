"""ACLs into a running service through createAcls, batch by batch.

What is there already is left as it is, so that an import that was cut off is carried on by doing it again.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.client.http.replies import CreateResult, ServiceError
from app.core.kafka.bindings import AclBinding
from app.formats.acl_entries import shown

MAX_BATCH_BYTES = 4 * 1024 * 1024
"""Of JSON, counted so that it is never more: half of what createAcls takes."""

_BYTES_A_BINDING = 256
_MOST_BYTES_A_BYTE = 6
"""A control character becomes an escape of so many."""

_TRIES = 4
_PAUSE_S = 0.5


class AclCreator(Protocol):
    """Where the ACLs go: `app.client.http.service.Service`."""

    @property
    def timeout_s(self) -> float:
        """All the time that a batch has, in seconds, however often it is tried."""

    def create_acls(self, bindings: Sequence[AclBinding], *, timeout_s: float) -> tuple[list[CreateResult], str]:
        """One result a binding, in order, and the token of the state that has them; within `timeout_s` seconds."""


@dataclass(slots=True)
class HttpImportCounts:
    """How far an import has come; changed in place."""

    read: int = 0
    """Bindings that are in the store: the sum of the next two."""
    created: int = 0
    there: int = 0
    """ACLs that were there when their turn came: from before, or from earlier in the same file."""
    token: str | None = None
    """Of the state that has the last batch."""


class HttpImporter:
    """One import; `counts` can be read at any time, and `report` is called whenever they have changed."""

    def __init__(
        self,
        service: AclCreator,
        report: Callable[[HttpImportCounts], None],
        *,
        batch_acls: int,
        acls_per_s: int,
    ) -> None:
        """At most `acls_per_s` new ones a second, 0 for no bound: replicas have each of them to apply."""
        self.counts = HttpImportCounts()
        self._service = service
        self._report = report
        self._batch_acls = batch_acls
        self._acls_per_s = acls_per_s

    def run(self, bindings: Iterable[AclBinding]) -> None:
        """Create all of them, in their order. To be called once.

        Raises ServiceError if a call fails or an ACL is refused; `counts` tells how far it came.
        """
        for batch in batches(bindings, self._batch_acls):
            began_at = time.monotonic()
            before = self.counts.created
            self._count(batch, *self._create(batch))
            if self._acls_per_s:
                took_s = time.monotonic() - began_at
                time.sleep(max(0.0, (self.counts.created - before) / self._acls_per_s - took_s))

    def _create(self, batch: Sequence[AclBinding]) -> tuple[list[CreateResult], str]:
        attempt, left_s = 1, self._service.timeout_s
        deadline = time.monotonic() + left_s
        while True:
            try:
                return self._service.create_acls(batch, timeout_s=left_s)
            except ServiceError as error:
                pause_s = random.uniform(_PAUSE_S / 2, _PAUSE_S) * attempt  # noqa: S311 - no secret
                left_s = deadline - time.monotonic() - pause_s
                # Creating an ACL twice is as good as once, so what became of the first time does not matter.
                if not error.outcome_unknown or attempt == _TRIES or left_s <= 0:
                    raise
            time.sleep(pause_s)
            attempt += 1

    def _count(self, batch: Sequence[AclBinding], results: Sequence[CreateResult], token: str) -> None:
        counts = self.counts
        refused: str | None = None
        for binding, result in zip(batch, results, strict=True):
            if result.refusal is not None:
                refused = refused or f"{result.refusal} ({shown(binding)})"
                continue
            counts.read += 1
            counts.created += result.created
            counts.there += not result.created
        counts.token = token
        self._report(counts)
        if refused is not None:
            raise ServiceError(f"the service refuses an ACL: {refused}")


def batches(bindings: Iterable[AclBinding], most: int) -> Iterator[list[AclBinding]]:
    """The bindings in their order, so many at once at most, and fewer if their texts are long."""
    batch: list[AclBinding] = []
    size = 0
    for binding in bindings:
        texts = len(binding.resource_name.encode()) + len(binding.principal.encode()) + len(binding.host.encode())
        own = _BYTES_A_BINDING + _MOST_BYTES_A_BYTE * texts
        if batch and (len(batch) == most or size + own > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(binding)
        size += own
    if batch:
        yield batch
