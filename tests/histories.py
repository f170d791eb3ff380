"""Random histories of a store, for tests of the past."""

from datetime import UTC, datetime
from random import Random

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import AlterConfigs, CreateAcls, DeleteAcls, Mutation
from app.core.records import Record
from app.core.token import Token
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore

NAMES = ("a", "ab", "abc", "b", "*")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:pii")
HOSTS = ("*", "10.1.2.3", "10.0.0.0/8")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.ALL)
SUPER_USERS = (None, "User:bob", "User:root;User:alice")
ENDS = [datetime(2099, 1, day, hour, tzinfo=UTC) for day in (1, 2, 3) for hour in range(0, 24, 6)]


def some_acl(draw: Random) -> AclBinding:
    name = draw.choice(NAMES)
    pattern_type = PatternType.LITERAL if name == "*" else draw.choice((PatternType.LITERAL, PatternType.PREFIXED))
    permission = draw.choice((AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY))
    place = (draw.choice(TYPES), name, pattern_type, draw.choice(PRINCIPALS), draw.choice(HOSTS))
    return AclBinding(*place, draw.choice(OPERATIONS), permission)


def some_filter(draw: Random) -> AclBindingFilter:
    wanted = some_acl(draw)
    return AclBindingFilter(
        draw.choice((ResourceType.ANY, wanted.resource_type)),
        draw.choice((None, wanted.resource_name)),
        draw.choice((PatternType.ANY, PatternType.MATCH, wanted.pattern_type)),
        draw.choice((None, wanted.principal)),
        draw.choice((None, None, wanted.host)),
        draw.choice((AclOperation.ANY, wanted.operation)),
        draw.choice((AclPermissionType.ANY, wanted.permission_type)),
    )


def some_mutation(draw: Random) -> Mutation:
    actor, comment = draw.choice(("User:admin", "User:ops")), draw.choice((None, None, "OPS-1: why", "OPS-2"))
    kind = draw.random()
    if kind < 0.1:
        value = draw.choice(("true", "false", None))
        changes = [("super.users", draw.choice(SUPER_USERS)), ("allow.everyone.if.no.acl.found", value)]
        return AlterConfigs(changes, actor, None, comment)
    if kind < 0.3:
        return DeleteAcls([some_filter(draw)], actor, None, comment)
    terms = [(draw.choice((KEEP, None, draw.choice(ENDS))), draw.choice((KEEP, KEEP, None, "team"))) for _ in range(3)]
    return CreateAcls([NewAcl(some_acl(draw), *each) for each in terms[: draw.randint(1, 3)]], actor, None, comment)


async def write_history(store: PostgresAclStore, draw: Random, transactions: int) -> None:
    known = KnownHistory()
    for _ in range(transactions):
        await store.write([some_mutation(draw) for _ in range(draw.randint(1, 2))], known)


async def records_of(feed: PostgresChangeFeed) -> tuple[list[Record], Token]:
    """All records, and where the store stands."""
    found: list[Record] = []
    while True:
        poll = await feed.poll(len(found), 1_000)
        found += poll.records
        if len(found) == poll.head.last_offset:
            return found, Token(poll.head.epoch, poll.head.last_offset)
