"""`at`: what is answered of a moment of the past equals core on the image of then, folded from every record."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import uuid4

import pytest

from app.core.access.what import WhatQuestion
from app.core.access.who import WhoQuestion
from app.core.authorize import Authorization
from app.core.epochs import Epochs, next_epoch
from app.core.groups import Groups
from app.core.image import AuthorizerImage
from app.core.index.table import SortKey
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.configs import AuthorizerConfig, effective_config
from app.core.kafka.errors import (
    InvalidRequestException,
    OffsetNotAvailableException,
    OffsetOutOfRangeException,
    TokenEpochInvalidException,
    TokenEpochMismatchException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from app.core.past import Moment, PastState
from app.core.records import Record
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.runtime.authorizer import Authorizer
from app.runtime.past import Past, PastImage
from app.runtime.rights import ExplainedCaller
from app.store.engine import Connection
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.reading.past import PostgresPast
from app.store.writing.acl_store import PostgresAclStore
from tests.budgets import seeds
from tests.contexts import Unchecked
from tests.fakes import FakeStore
from tests.histories import OPERATIONS, PRINCIPALS, TYPES, records_of, some_filter, write_history
from tests.images import image_of
from tests.past import moment_in, tables_at

ROOT = Unchecked("User:admin", parse_address("127.0.0.1"))
STARTUP = AuthorizerConfig(super_users=frozenset({"User:admin"}))
NAMES = ("a", "ab", "abcd", "b", "c", "*", "x\0y", "")
ADDRESSES = ("10.1.2.3", "10.9.9.9", "192.168.1.1")
TRANSACTIONS = 40

# The records seem to be hours apart, and ends lie among them.
_LONG_AGO = (
    """UPDATE acl_record SET recorded_at = timestamptz '2020-01-01 00:00Z' + tx_last * interval '53 minutes',
    expires_at = expires_at - interval '79 years', prior_expires_at = prior_expires_at - interval '79 years'""",
    "UPDATE acl SET expires_at = expires_at - interval '79 years'",
    "UPDATE acl_head SET digest = NULL",
)

_FIRST_EPOCH = "INSERT INTO acl_epoch SELECT 1, epoch, 0, clock_timestamp(), 'a test began it' FROM acl_head"


class World:
    """A service on PostgreSQL that answers questions about the past, and all records that its store ever had."""

    def __init__(self, url: DatabaseUrl, database: Connection) -> None:
        self.store, self.feed, self.source = PostgresAclStore(url), PostgresChangeFeed(url), PostgresPast(url)
        # Rights are those of now: of a store that nothing happens to.
        now = FakeStore()
        self.authorizer = Authorizer(now, now.feed, STARTUP)
        self.past = Past(self.authorizer, self.source)
        self.records: list[Record] = []
        self.epochs = Epochs.only(ROOT_ID)
        self.database = database
        self._url = url

    async def begin(self, draw: Random) -> None:
        await self.database.execute("TRUNCATE acl, acl_record, config")
        await self.database.execute(
            "UPDATE acl_head SET epoch = gen_random_uuid(), last_offset = 0, hash = decode(repeat('00', 32), 'hex'), "
            "log_start_offset = 1, digest = NULL"
        )
        # The trigger has noted the epoch after those of the history that was here before.
        await self.database.execute("DELETE FROM acl_epoch")
        await self.database.execute(_FIRST_EPOCH)
        await write_history(self.store, draw, TRANSACTIONS // 2)
        another = PostgresAclStore(self._url)
        await write_history(another, draw, TRANSACTIONS // 2)
        await another.close()
        for statement in _LONG_AGO:
            await self.database.execute(statement)
        self.records, _ = await records_of(self.feed)
        self.epochs = (await self.feed.poll(len(self.records), 1)).head.epochs
        assert len(self.epochs.rows) > 1

    def moment(self, draw: Random, first: int = 0) -> Moment:
        offset = draw.randint(first, len(self.records))
        if draw.random() < 0.5 or offset == 0:
            return draw.choice((self.epochs.token_of(offset), Token(self.epochs.last, offset)))
        return self.records[offset - 1].recorded_at + timedelta(minutes=draw.choice((0, 1, 52, 600)))

    def image(self, at: Moment) -> AuthorizerImage:
        """All ACLs and properties of then."""
        offset, now = moment_in(self.records, at)
        tables = tables_at(self.records, offset)
        image = image_of(tables.listed(), STARTUP)
        config = effective_config(STARTUP, tables.configs)
        return replace(
            image, epoch=self.epochs.at(offset), offset=offset, config=config, overrides=tables.configs
        ).as_of(now)


ROOT_ID = Token.parse("00000000-0000-0000-0000-000000000000:0").epoch


@pytest.fixture
async def world(store_url: str, database: Connection) -> AsyncIterator[World]:
    world = World(DatabaseUrl.parse(store_url), database)
    world.authorizer.open()
    await world.authorizer.readiness.wait_until_ready(["CLIENT"], 30)
    yield world
    await world.past.close()
    await world.store.close()
    await world.feed.close()
    await world.authorizer.close()


def text_of(at: Moment) -> str:
    return str(at) if isinstance(at, Token) else at.isoformat()


async def ask(world: World, draw: Random, first: int = 0) -> None:
    """One random question, of PostgreSQL and of the model."""
    at = world.moment(draw, first)
    text, model = text_of(at), PastImage(world.image(at))
    authorizer, past = world.authorizer, world.past
    resource_type, name, principal = draw.choice(TYPES), draw.choice(NAMES), draw.choice((*PRINCIPALS, "User:root"))
    address = parse_address(draw.choice(ADDRESSES))
    match draw.randrange(5):
        case 0:
            groups = draw.choice((None, Groups(["pii"])))
            about = ExplainedCaller(principal, address, groups)
            actions = [
                (draw.choice(OPERATIONS), resource_type, name),
                (AclOperation.DESCRIBE, ResourceType.TOPIC, "ab"),
            ]
            then = await past.of_actions(ROOT, about, actions, text)
            assert await authorizer.explain(ROOT, about, actions, then) == await authorizer.explain(
                ROOT, about, actions, model
            )
        case 1:
            who = WhoQuestion(resource_type, name, 0b1111100, draw.choice((None, address)))
            then = await past.of_resource(ROOT, resource_type, name, text)
            found, expected = [await authorizer.who_can(ROOT, who, 1_000, None, each) for each in (then, model)]
            assert (found.rows, found.allowed_by_default) == (expected.rows, expected.allowed_by_default), at
        case 2:
            what = WhatQuestion(principal, draw.choice((None, address)), draw.choice((None, Groups(["pii", "eng"]))))
            then = await past.of_principal(ROOT, what, text)
            holds, expects = [await authorizer.what_can(ROOT, what, 1_000, None, each) for each in (then, model)]
            assert (holds.rows, holds.allowed_by_default) == (expects.rows, expects.allowed_by_default), at
        case 3:
            asker = Unchecked(principal, address)
            resources = [(each, some) for each in TYPES for some in ("a", "ab", "c")]
            then = await past.of_resources(asker, resources, text)

            def operations(authorization: Authorization, resource: tuple[ResourceType, str]) -> int:
                return authorization.authorized_operations(*resource)

            answers = [await authorizer.decide_each(asker, resources, operations, each) for each in (then, model)]
            assert answers[0] == answers[1], at
        case _:
            await compare_lists(world, draw, text, model)


async def compare_lists(world: World, draw: Random, at: str, model: PastImage) -> None:
    wanted = some_filter(draw) if draw.random() < 0.6 else AclBindingFilter()
    expected = (await world.authorizer.acls(ROOT, wanted, 1_000, None, model)).acls
    found, cursor, limit = [], None, draw.choice((3, 1_000))
    while True:
        page = await world.past.acls(ROOT, wanted, limit, cursor, at)
        assert len(page.acls) <= limit
        found += page.acls
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert found == expected, (at, wanted)


async def compare(world: World, seeds: range, questions: int) -> None:
    for seed in seeds:
        draw = Random(seed)
        await world.begin(draw)
        for _ in range(questions):
            await ask(world, draw)


async def test_answers_of_the_past_equal_core_on_the_image_of_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.runtime.past._STRETCH", 20)
    # Some moments are recent, and most are not.
    monkeypatch.setattr("app.store.reading.state._RECENT", 25)
    await compare(world, seeds("histories"), 100)


async def test_a_list_of_a_recent_moment_does_not_read_the_history_before_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.runtime.past._STRETCH", 20)
    await world.begin(Random(3))
    for _ in range(20):
        await write_history(world.store, Random(4), 10)
    records, at = await records_of(world.feed)
    assert len(records) > 300
    await write_history(world.store, Random(5), 4)
    asked: list[int] = []
    really = world.source.stretch

    async def stretch(at: Moment, after: SortKey | None, rows: int) -> PastState:
        asked.append(rows)
        return await really(at, after, rows)

    monkeypatch.setattr(world.source, "stretch", stretch)
    expected = image_of(tables_at(records, len(records)).listed(), STARTUP)
    found, cursor = 0, None
    while True:
        page = await world.past.acls(ROOT, AclBindingFilter(), 1_000, cursor, str(at))
        found += len(page.acls)
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert found == expected.acl_count
    assert len(asked) <= expected.acl_count // 20 + len(NAMES)


async def test_what_is_trimmed_is_refused_and_the_rest_is_answered_as_before(world: World) -> None:
    for seed in seeds("histories"):
        draw = Random(seed)
        await world.begin(draw)
        while await world.feed.trim(keep_age=None, keep_count=30):
            pass
        start = await world.database.fetchval("SELECT log_start_offset FROM acl_head")
        assert start > 1
        oldest = world.records[start - 1]
        for at in (
            world.epochs.token_of(start - 1),
            Token(world.epochs.last, 0),
            oldest.recorded_at - timedelta(microseconds=1),
        ):
            with pytest.raises(OffsetOutOfRangeException, match=str(world.epochs.token_of(start))) as refusal:
                await world.past.of_principal(ROOT, WhatQuestion("User:alice"), text_of(at))
            assert refusal.value.oldest_token == str(world.epochs.token_of(start))
            assert oldest.recorded_at.isoformat()[:19] in refusal.value.message
        for _ in range(100):
            await ask(world, draw, start)


async def test_what_can_not_be_known_is_refused(world: World) -> None:
    await world.begin(Random(1))
    begun, last = world.epochs.rows[-1], len(world.records)
    for at, refusal in (
        (str(Token(begun.id, last + 1)), OffsetNotAvailableException),
        (str(Token(next_epoch(datetime(2020, 1, 1, tzinfo=UTC), [begun.id], uuid4()), 1)), OffsetNotAvailableException),
        (str(Token(next_epoch(datetime(2999, 1, 1, tzinfo=UTC), [], uuid4()), 1)), TokenEpochInvalidException),
        (str(Token(world.epochs.rows[-2].id, begun.first_offset + 1)), TokenEpochMismatchException),
        (str(Token(ROOT_ID, 1)), TokenEpochMismatchException),
        ("2999-01-01T00:00:00Z", InvalidRequestException),
        ("tomorrow", InvalidRequestException),
    ):
        with pytest.raises(refusal, match="`at`"):
            await world.past.of_principal(ROOT, WhatQuestion("User:alice"), at)


async def test_a_question_that_touches_too_much_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.begin(Random(2))
    monkeypatch.setattr("app.store.reading.state.MOST", 3)
    with pytest.raises(InvalidRequestException, match="more than 3"):
        await world.past.of_principal(ROOT, WhatQuestion("User:alice"), str(Token(world.epochs.last, 1)))
