"""The past, asked of PostgreSQL, equals plain folds over every record."""

from collections.abc import AsyncIterator
from datetime import timedelta
from random import Random

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.codes import PatternType, ResourceType
from app.core.kafka.errors import TokenEpochMismatchException
from app.core.kafka.filters import AclBindingFilter
from app.core.past import Change, ChangesQuestion, Moment
from app.core.records import Record
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection
from app.store.filters import columns_of, shape_of
from app.store.reading import changes
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.reading.past import PostgresPast
from app.store.writing.acl_store import PostgresAclStore
from tests.histories import records_of, some_filter, some_mutation, write_history
from tests.past import answers, changes_in


@pytest.fixture
async def past(store_url: str) -> AsyncIterator[PostgresPast]:
    past = PostgresPast(DatabaseUrl.parse(store_url))
    yield past
    await past.close()


def some_moment(draw: Random, records: list[Record], epoch: Token) -> Moment | None:
    at = draw.choice(records)
    if draw.random() < 0.5:
        return draw.choice((None, Token(epoch.epoch, draw.randint(0, len(records)))))
    return at.recorded_at + timedelta(microseconds=draw.choice((-1, 0, 1)))


@pytest.mark.parametrize("seed", range(3))
async def test_history_equals_a_plain_look_through_all_records(
    store: PostgresAclStore, feed: PostgresChangeFeed, past: PostgresPast, seed: int
) -> None:
    draw = Random(seed)
    await write_history(store, draw, 60)
    records, head = await records_of(feed)
    model = changes_in(records)
    for _ in range(100):
        question = ChangesQuestion(
            acl_filter=some_filter(draw) if draw.random() < 0.7 else AclBindingFilter(),
            actor=draw.choice((None, None, "User:ops")),
            comment=draw.choice((None, None, "OPS-1", "nowhere")),
            since=some_moment(draw, records, head),
            until=some_moment(draw, records, head),
            before=draw.choice((None, None, draw.randint(0, len(records)))),
            with_configs=draw.random() < 0.8,
            limit=draw.choice((1, 7, 1_000)),
        )
        expected = [each for each in reversed(model) if answers(each, question)]
        page = await past.changes(question)
        assert list(page.changes) == expected[: question.limit], question
        assert (page.before is None) == (len(expected) <= question.limit)
        assert page.head == head


async def test_a_rare_change_among_many_is_found_over_short_pages(
    store: PostgresAclStore, past: PostgresPast, database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.reading.changes._STRETCH", 10)
    draw = Random(7)
    await write_history(store, draw, 120)
    await database.execute("""UPDATE acl_record SET comment = 'the one', hash_version = 2 WHERE "offset" = 3""")
    pages, found = 0, list[Change]()
    before: int | None = None
    while True:
        page = await past.changes(ChangesQuestion(comment="the one", before=before))
        found += page.changes
        pages, before = pages + 1, page.before
        if before is None:
            break
    assert [each.record.offset for each in found] == [3]
    assert pages > 1


async def test_a_token_of_another_epoch_is_refused(store: PostgresAclStore, past: PostgresPast) -> None:
    outcome = await store.write([some_mutation(Random(1))], KnownHistory())
    strange = Token(type(outcome.epoch)(int=1), 1)
    for question in (ChangesQuestion(since=strange), ChangesQuestion(until=strange)):
        with pytest.raises(TokenEpochMismatchException):
            await past.changes(question)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (AclBindingFilter(principal="User:p77"), "ix_acl_record_principal"),
        (AclBindingFilter(ResourceType.TOPIC, "t77", PatternType.LITERAL), "ix_acl_record_resource"),
        (AclBindingFilter(ResourceType.TOPIC, "t77-and-more", PatternType.MATCH), "ix_acl_record_resource"),
    ],
)
async def test_questions_fit_an_index(database: Connection, wanted: AclBindingFilter, index: str) -> None:
    await database.execute("SET enable_seqscan = off")
    statement = changes._statement(shape_of(wanted), with_configs=False)
    arguments = (*columns_of([(0, wanted)]), 0, 1_000_000, 101, None, None)
    plan = "\n".join(row[0] for row in await database.fetch("EXPLAIN " + statement, *arguments))
    assert index in plan
