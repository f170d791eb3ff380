"""The past, asked of PostgreSQL, equals plain folds over every record."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID, uuid4

import pytest

from app.core.continuity import KnownHistory
from app.core.epochs import Epochs, next_epoch
from app.core.kafka.codes import PatternType, ResourceType
from app.core.kafka.errors import (
    OffsetNotAvailableException,
    TokenEpochInvalidException,
    TokenEpochMismatchException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.past import Change, ChangesQuestion, Moment, PastScope
from app.core.records import Record
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection
from app.store.filters import columns_of, shape_of
from app.store.reading import changes
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.reading.past import PostgresPast
from app.store.writing.acl_store import PostgresAclStore
from tests.histories import records_of, some_filter, write_history
from tests.past import answers, changes_in
from tests.updates import create, topic


@pytest.fixture
async def past(store_url: str) -> AsyncIterator[PostgresPast]:
    past = PostgresPast(DatabaseUrl.parse(store_url))
    yield past
    await past.close()


def some_moment(draw: Random, records: list[Record], epochs: Epochs) -> Moment | None:
    at = draw.choice(records)
    if draw.random() < 0.5:
        offset = draw.randint(0, len(records))
        return draw.choice((None, epochs.token_of(offset), Token(epochs.last, offset)))
    return at.recorded_at + timedelta(microseconds=draw.choice((-1, 0, 1)))


@pytest.mark.parametrize("seed", range(3))
async def test_history_equals_a_plain_look_through_all_records(
    store_url: str, store: PostgresAclStore, feed: PostgresChangeFeed, past: PostgresPast, seed: int
) -> None:
    draw = Random(seed)
    await write_history(store, draw, 30)
    # Another process' first write begins an epoch.
    another = PostgresAclStore(DatabaseUrl.parse(store_url))
    await write_history(another, draw, 30)
    await another.close()
    records, head = await records_of(feed)
    epochs = (await feed.poll(head.offset, 1)).head.epochs
    model = changes_in(records)
    for _ in range(100):
        question = ChangesQuestion(
            acl_filter=some_filter(draw) if draw.random() < 0.7 else AclBindingFilter(),
            actor=draw.choice((None, None, "User:ops")),
            comment=draw.choice((None, None, "OPS-1", "nowhere")),
            since=some_moment(draw, records, epochs),
            until=some_moment(draw, records, epochs),
            before=draw.choice((None, None, draw.randint(0, len(records)))),
            with_configs=draw.random() < 0.8,
            limit=draw.choice((1, 7, 1_000)),
        )
        expected = [each for each in reversed(model) if answers(each, question)]
        page = await past.changes(question)
        assert list(page.changes) == expected[: question.limit], question
        assert (page.before is None) == (len(expected) <= question.limit)
        assert (page.head, page.epochs) == (head, epochs)
        assert {page.token_of(each.record.offset).epoch for each in page.changes} <= {each.id for each in epochs.rows}


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


async def test_a_token_of_an_older_epoch_is_good_up_to_where_the_next_one_began(
    store_url: str, store: PostgresAclStore, past: PostgresPast
) -> None:
    first = await store.write([create(topic("a"))], KnownHistory())
    another = PostgresAclStore(DatabaseUrl.parse(store_url))
    second = await another.write([create(topic("b"))], KnownHistory())
    await another.close()
    assert second.epoch != first.epoch

    page = await past.changes(ChangesQuestion(since=Token(first.epoch, 1)))
    assert [str(page.token_of(each.record.offset)) for each in page.changes] == [f"{second.epoch}:2"]
    page = await past.changes(ChangesQuestion(until=Token(first.epoch, 1)))
    assert [str(page.token_of(each.record.offset)) for each in page.changes] == [f"{first.epoch}:1"]
    assert page.head == Token(second.epoch, 2)
    state = await past.state(Token(first.epoch, 1), PastScope(filters=[AclBindingFilter()]))
    assert ([each.binding for each in state.acls], str(state.token)) == ([topic("a")], f"{first.epoch}:1")

    later = next_epoch(datetime(2020, 1, 1, tzinfo=UTC), [second.epoch], uuid4())
    for token, refusal in (
        (Token(first.epoch, 2), TokenEpochMismatchException),
        (Token(UUID(int=1), 1), TokenEpochMismatchException),
        (Token(second.epoch, 3), OffsetNotAvailableException),
        (Token(later, 1), OffsetNotAvailableException),
        (Token(next_epoch(datetime(2999, 1, 1, tzinfo=UTC), [], uuid4()), 1), TokenEpochInvalidException),
    ):
        for question in (ChangesQuestion(since=token), ChangesQuestion(until=token)):
            with pytest.raises(refusal):
                await past.changes(question)
        with pytest.raises(refusal):
            await past.state(token, PastScope(filters=[AclBindingFilter()]))


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
