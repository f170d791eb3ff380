"""Imports ACLs into a running service through createAcls, batch by batch.

Existing ACLs are left as they are, so an interrupted import is resumed by running it again.
"""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from app.client.http.replies import CreateResult, ServiceError
from app.client.http.service import Service, batches
from app.core.backoff import Backoff
from app.core.kafka.bindings import NewAcl
from app.core.readable import readable_acl

_TRIES = 4
_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 2.0


@dataclass(slots=True)
class HttpImportCounts:
    read: int = 0
    """Bindings that are in the store: the sum of the next two."""
    created: int = 0
    there: int = 0
    """ACLs that existed before, or came earlier in the same file."""
    token: str | None = None
    """The token of the state that has the last batch."""


class HttpImporter:
    def __init__(
        self,
        service: Service,
        report: Callable[[HttpImportCounts], None],
        *,
        batch_acls: int,
        acls_per_s: int,
        comment: str | None = None,
    ) -> None:
        """`report` is called whenever `counts` have changed.

        Creates at most `acls_per_s` a second, because replicas have to apply each of them; 0 for no limit.
        """
        self.counts = HttpImportCounts()
        self._service = service
        self._report = report
        self._batch_acls = batch_acls
        self._acls_per_s = acls_per_s
        self._comment = comment

    def run(self, acls: Iterable[NewAcl]) -> None:
        """Creates them in order. Can be called once. Raises ServiceError if a call fails or an ACL is refused."""
        for batch in batches(acls, self._batch_acls, self._comment):
            began_at = time.monotonic()
            before = self.counts.created
            self._count(batch, *self._create(batch))
            if self._acls_per_s:
                took_s = time.monotonic() - began_at
                time.sleep(max(0.0, (self.counts.created - before) / self._acls_per_s - took_s))

    def _create(self, batch: Sequence[NewAcl]) -> tuple[list[CreateResult], str]:
        backoff, attempt, left_s = Backoff(_PAUSE_S, _LONGEST_PAUSE_S, random.uniform), 1, self._service.timeout_s
        deadline = time.monotonic() + left_s
        while True:
            try:
                return self._service.create_acls(batch, timeout_s=left_s, comment=self._comment)
            except ServiceError as error:
                pause_s = backoff.next_s()
                left_s = deadline - time.monotonic() - pause_s
                # Creating an ACL twice is as good as once, so the outcome of the first try does not matter.
                if not error.outcome_unknown or attempt == _TRIES or left_s <= 0:
                    raise
            time.sleep(pause_s)
            attempt += 1

    def _count(self, batch: Sequence[NewAcl], results: Sequence[CreateResult], token: str) -> None:
        counts = self.counts
        refused: list[str] = []
        for acl, result in zip(batch, results, strict=True):
            if result.refusal is not None:
                refused.append(f"{result.refusal} ({readable_acl(acl.binding)})")
                continue
            counts.read += 1
            counts.created += result.created
            counts.there += not result.created
        counts.token = token
        self._report(counts)
        if refused:
            raise ServiceError(f"the service refuses an ACL: {refused[0]}")
