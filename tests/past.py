"""The past, by plain folds over every record from the first on: what `PastStore` has to say, and what the fake says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.core.index.table import SortKey, sort_key
from app.core.kafka.bindings import StandardAcl
from app.core.past import Change, ChangesPage, ChangesQuestion, KnownSince, Moment, PastScope, PastState, PriorState
from app.core.records import ConfigRecord, Record
from app.core.token import Token
from tests.fakes import FakeStore, Tables


def changes_in(records: Sequence[Record]) -> list[Change]:
    """Each record with what was there before it, oldest first."""
    tables, found = Tables(), list[Change]()
    for record in records:
        prior: PriorState | None = None
        if isinstance(record, ConfigRecord):
            value = tables.configs.get(record.name)
            prior = None if value is None else PriorState(value=value)
        else:
            acl = tables.acls.get(record.acl.binding.natural_key)
            prior = None if acl is None else PriorState(acl.terms)
        found.append(Change(record, prior))
        tables.replay(record)
    return found


def tables_at(records: Sequence[Record], offset: int) -> Tables:
    tables = Tables()
    for record in records[:offset]:
        tables.replay(record)
    return tables


def moment_in(records: Sequence[Record], at: Moment) -> tuple[int, float]:
    """The offset and the time."""
    if isinstance(at, Token):
        return at.offset, records[at.offset - 1].recorded_at.timestamp() if at.offset else 0.0
    return sum(each.recorded_at <= at for each in records), at.timestamp()


def answers(change: Change, question: ChangesQuestion) -> bool:
    record = change.record
    if isinstance(record, ConfigRecord):
        if not question.with_configs or question.acl_filter != type(question.acl_filter)():
            return False
    elif not question.acl_filter.matches(record.acl.binding):
        return False
    return (
        (question.actor is None or question.actor == record.actor)
        and (question.comment is None or question.comment in (record.comment or ""))
        and (question.since is None or _is_behind(record, question.since))
        and (question.until is None or not _is_later(record, question.until))
        and (question.before is None or record.offset < question.before)
    )


def _is_behind(record: Record, since: Moment) -> bool:
    return record.offset > since.offset if isinstance(since, Token) else record.recorded_at >= since


def _is_later(record: Record, until: Moment) -> bool:
    return record.offset > until.offset if isinstance(until, Token) else record.recorded_at > until


@dataclass(slots=True)
class FakePast:
    """`PastStore` of a fake store."""

    store: FakeStore

    async def changes(self, question: ChangesQuestion) -> ChangesPage:
        records = self.store.tables.records
        found = [each for each in reversed(changes_in(records)) if answers(each, question)]
        page, head = found[: question.limit], Token(self.store.epoch, len(records))
        before = page[-1].record.offset if len(found) > len(page) else None
        epochs = self.store.epochs
        return ChangesPage(page, before, KnownSince(epochs.token_of(0), None), head, epochs)

    async def state(self, at: Moment, scope: PastScope) -> PastState:
        wanted = [*scope.filters, *scope.if_few]
        return self._state(at, lambda acl: any(each.matches(acl.binding) for each in wanted))

    async def stretch(self, at: Moment, after: SortKey | None, rows: int) -> PastState:
        assert rows > 0
        return self._state(at, lambda acl: after is None or sort_key(acl.binding) >= after)

    def _state(self, at: Moment, is_wanted: Callable[[StandardAcl], bool]) -> PastState:
        records = self.store.tables.records
        offset, now = moment_in(records, at)
        tables = tables_at(records, offset)
        acls = [acl for acl in tables.listed() if is_wanted(acl)]
        return PastState(self.store.cluster_id, self.store.epochs.token_of(offset), now, acls, tables.configs)

    async def close(self) -> None:
        """Nothing is held."""
