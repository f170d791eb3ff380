import math
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from app.client.http.replies import CreateResult, Refusal, ServiceError
from app.client.http.service import MAX_CALL_BYTES, Service, batches
from app.client.import_over_http import HttpImportCounts, HttpImporter
from app.core.kafka.bindings import NewAcl, StandardAcl
from app.core.records import MAX_TRANSACTION_BYTES, AccessControlEntryRecord, record_bytes
from tests.updates import topic

REFUSED = Refusal("INVALID_REQUEST", 42, "no such thing")


class Creator:
    """A service that keeps what it is given, and fails as told before or after."""

    def __init__(self, timeout_s: float = 3_600.0) -> None:
        self.timeout_s = timeout_s
        self.given_s: list[float] = []
        """How much time each call was given, in seconds."""
        self.acls: list[NewAcl] = []
        self.calls: list[int] = []
        self.faults: list[tuple[ServiceError | None, bool]] = []
        """What the next calls fail with, and whether their ACLs are kept none the less."""
        self.refuses: str | None = None
        self.comments: set[str | None] = set()

    def create_acls(
        self, acls: Sequence[NewAcl], *, timeout_s: float, comment: str | None
    ) -> tuple[list[CreateResult], str]:
        self.calls.append(len(acls))
        self.comments.add(comment)
        self.given_s.append(timeout_s)
        fault, keeps = self.faults.pop(0) if self.faults else (None, True)
        results = [self._create(each) for each in acls] if keeps else []
        if fault is not None:
            raise fault
        return results, f"epoch:{len(self.acls)}"

    def _create(self, acl: NewAcl) -> CreateResult:
        if acl.binding.resource_name == self.refuses:
            return CreateResult(None, created=False, refusal=REFUSED)
        is_new = acl not in self.acls
        if is_new:
            self.acls.append(acl)
        return CreateResult(UUID(int=1), created=is_new, refusal=None)


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was slept, each time; the clock goes on by that, and stands still otherwise."""
    found: list[float] = []
    clock = SimpleNamespace(sleep=found.append, monotonic=lambda: math.fsum(found))
    monkeypatch.setattr("app.client.import_over_http.time", clock)
    return found


def importer(service: Creator, *, batch_acls: int = 10, acls_per_s: int = 0) -> HttpImporter:
    return HttpImporter(cast("Service", service), lambda _: None, batch_acls=batch_acls, acls_per_s=acls_per_s)


def topics(count: int) -> list[NewAcl]:
    return [NewAcl(topic(f"t{at}")) for at in range(count)]


def test_acls_go_in_batches_in_their_order() -> None:
    service = Creator()
    work = importer(service)
    work.run([*topics(25), *topics(3)])
    assert service.acls == topics(25)
    assert service.calls == [10, 10, 8]
    assert work.counts == HttpImportCounts(read=28, created=25, there=3, token="epoch:25")


def test_done_again_it_changes_nothing() -> None:
    service = Creator()
    importer(service).run(topics(5))
    again = importer(service)
    again.run(topics(7))
    assert (again.counts.created, again.counts.there) == (2, 5)


def test_nothing_is_sent_for_no_acls() -> None:
    service = Creator()
    work = importer(service)
    work.run([])
    assert service.calls == []
    assert work.counts.token is None


@pytest.mark.parametrize("keeps", [True, False])
def test_a_batch_whose_outcome_is_unknown_is_sent_again(keeps: bool, slept: list[float]) -> None:  # noqa: FBT001 - a parameter
    service = Creator()
    service.faults = [(ServiceError("no answer", outcome_unknown=True), keeps)] * 3
    work = importer(service)
    work.run(topics(4))
    assert service.calls == [4] * 4
    assert service.acls == topics(4)
    assert work.counts.read == 4
    assert len(slept) == 3


def test_at_last_it_gives_up_and_tells_what_is_certain() -> None:
    service = Creator()
    work = importer(service, batch_acls=2)
    service.faults = [(None, True), *[(ServiceError("no answer", outcome_unknown=True), False)] * 9]
    with pytest.raises(ServiceError, match="no answer"):
        work.run(topics(4))
    assert work.counts.read == 2
    assert len(service.faults) == 5


def test_all_tries_of_a_batch_share_its_time(slept: list[float]) -> None:
    service = Creator(timeout_s=60.0)
    service.faults = [(ServiceError("no answer", outcome_unknown=True), True)] * 3
    importer(service).run(topics(4))
    # What is slept between them is of it, too.
    assert service.given_s == pytest.approx([60.0 - sum(slept[:tries]) for tries in range(4)])
    assert len(slept) == 3


def test_without_time_left_a_batch_is_not_tried_again(slept: list[float]) -> None:
    service = Creator(timeout_s=0.01)
    service.faults = [(ServiceError("no answer", outcome_unknown=True), True)]
    with pytest.raises(ServiceError, match="no answer"):
        importer(service).run(topics(4))
    assert service.calls == [4]
    assert slept == []


def test_the_next_batch_has_its_own_time() -> None:
    service = Creator(timeout_s=60.0)
    importer(service, batch_acls=2).run(topics(6))
    assert service.given_s == [60.0] * 3


def test_a_refusal_of_the_call_is_not_repeated() -> None:
    service = Creator()
    service.faults = [(ServiceError("CLUSTER_AUTHORIZATION_FAILED: no"), False)]
    with pytest.raises(ServiceError, match="CLUSTER"):
        importer(service).run(topics(4))
    assert service.calls == [4]


def test_an_acl_that_the_service_refuses_is_named_and_the_others_are_counted() -> None:
    service = Creator()
    service.refuses = "t1"
    work = importer(service, batch_acls=4)
    with pytest.raises(ServiceError, match=r"refuses an ACL: INVALID_REQUEST: no such thing \(ALLOW .* LITERAL t1\)"):
        work.run(topics(8))
    assert work.counts.read == work.counts.created == 3
    assert service.calls == [4]


def test_it_is_no_faster_than_told(slept: list[float]) -> None:
    service = Creator()
    importer(service, batch_acls=10, acls_per_s=10).run([*topics(10), *topics(10)])
    assert slept[0] == pytest.approx(1, abs=0.5)  # ten new ones
    assert slept[1:] == [0]  # none of them new


def test_long_texts_make_smaller_batches() -> None:
    long = [NewAcl(topic("\x00" * 32_000 + str(at))) for at in range(50)]
    found = list(batches(long, 1_000, None))
    assert [each for batch in found for each in batch] == long
    assert all(6 * 32_000 * len(batch) <= MAX_CALL_BYTES for batch in found)
    assert len(found) < 6
    assert [len(each) for each in batches(topics(7), 3, "T-1")] == [3, 3, 1]
    assert list(batches([], 3, None)) == []


def test_a_long_comment_which_each_record_repeats_makes_smaller_batches() -> None:
    comment, acls = "\U0001f600" * 500, topics(6_000)
    found = list(batches(acls, 10_000, comment))
    frame = (datetime(2026, 1, 1, tzinfo=UTC), "User:admin", b"", comment)
    for batch in found:
        records = [AccessControlEntryRecord(0, 0, StandardAcl(UUID(int=1), each.binding), *frame) for each in batch]
        assert sum(map(record_bytes, records)) < MAX_TRANSACTION_BYTES // 2
    assert [each for batch in found for each in batch] == acls
    assert len(found) == 3
