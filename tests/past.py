"""The past, by plain folds over every record from the first on: what `PastStore` has to say, and what the fake says."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.past import Change, ChangesPage, ChangesQuestion, KnownSince, Moment, PriorState
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
        return ChangesPage(page, before, KnownSince(Token(self.store.epoch, 0), None), head)

    async def close(self) -> None:
        """Nothing is held."""
