"""A service on PostgreSQL that answers questions about the past, asked what core is asked on the image of then."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from random import Random

from app.core.access.what import WhatQuestion
from app.core.access.who import WhoQuestion
from app.core.authorize import Authorization
from app.core.epochs import Epochs
from app.core.groups import Groups
from app.core.image import AuthorizerImage
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.configs import AuthorizerConfig, effective_config
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from app.core.past import Moment
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


@asynccontextmanager
async def world_on(store_url: str, database: Connection) -> AsyncIterator[World]:
    """The world of a newborn store."""
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
