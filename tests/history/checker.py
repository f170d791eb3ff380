"""Whether everything that clients were told can have happened, by the store's records and its table alone.

- A decision is what Kafka's rules say of the state at its own token.
- An acknowledged update is in the records, once, and nothing is there that nobody asked for.
- What was replied before a call began happened before it: for updates at any replica, for decisions at their own.
- The table is what the records lead to.

ACLs that end by time, and stores that were restored in between, are not for this checker.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from uuid import UUID

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import PatternType
from app.core.proof import FeedDamagedError, FeedProof
from app.core.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    FeedHead,
    Record,
    RemoveAccessControlEntryRecord,
)
from app.core.token import Token
from tests.history.observed import Creation, Decision, Deletion, Observed
from tests.reference import Reference

_EVERYBODY = "User:*"
_SUPER_USERS = "super.users"
_NEVER = 1 << 62


@dataclass(frozen=True)
class Store:
    """What a store holds after everything: every record since its birth, the head, and the rows of the table."""

    head: FeedHead
    records: Sequence[Record]
    acls: Mapping[UUID, AclBinding]
    super_users: frozenset[str]
    """Of the settings that the services were started with."""


@dataclass
class _Life:
    """Of one ACL: the offsets of the records that made it and took it away."""

    binding: AclBinding
    made: int
    removed: int = _NEVER


def faults_of(store: Store, observed: Observed) -> list[str]:
    """Each thing that can't have happened, in words; none is the answer that one wants."""
    try:
        _check_chain(store)
    except FeedDamagedError as fault:
        return [f"the feed is damaged: {fault}"]
    return [*_Checker(store, observed).faults()]


def _check_chain(store: Store) -> None:
    proof = FeedProof()
    group: list[Record] = []
    for record in store.records:
        group.append(record)
        if record.offset == record.tx_last:
            proof.follow(group, record.hash)
            group = []
    if group:
        raise FeedDamagedError(f"the last transaction is torn at offset {group[-1].offset}")
    proof.check_at(store.head.last_offset, store.head.hash, None)


class _Order:
    """The highest offset that any of some replies had named by a moment."""

    def __init__(self, replies: Iterable[tuple[float, Token]]) -> None:
        self._ended: list[float] = []
        self._highest: list[int] = []
        highest = 0
        for ended, token in sorted(replies, key=lambda each: each[0]):
            highest = max(highest, token.offset)
            self._ended.append(ended)
            self._highest.append(highest)

    def before(self, began: float) -> int:
        at = bisect_left(self._ended, began)
        return self._highest[at - 1] if at else 0


@dataclass
class _State:
    """The image at one offset; goes forward only."""

    super_users: frozenset[str]
    of: defaultdict[str, dict[UUID, AclBinding]] = field(default_factory=lambda: defaultdict(dict))
    configs: dict[str, str] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        match record:
            case ConfigRecord(name=name, value=value):
                self.configs.pop(name, None)
                if value is not None:
                    self.configs[name] = value
            case AccessControlEntryRecord(acl=acl):
                self.of[acl.binding.principal][acl.id] = acl.binding
            case RemoveAccessControlEntryRecord(acl=acl):
                del self.of[acl.binding.principal][acl.id]

    def allows(self, decision: Decision) -> tuple[bool, ...]:
        stored = self.configs.get(_SUPER_USERS)
        super_users = self.super_users if stored is None else frozenset(stored.split(";"))
        acls = [*self.of[decision.principal].values(), *self.of[_EVERYBODY].values()]
        rules = Reference(acls, super_users)
        return tuple(rules.authorize(decision.principal, decision.host, *each) for each in decision.questions)


class _Checker:
    def __init__(self, store: Store, observed: Observed) -> None:
        self._store = store
        self._observed = observed
        self._lives: dict[UUID, _Life] = {}
        self._made_of: defaultdict[AclBinding, list[UUID]] = defaultdict(list)
        self._of_principal: defaultdict[str, list[UUID]] = defaultdict(list)
        self._of_name: defaultdict[str, list[UUID]] = defaultdict(list)
        for record in store.records:
            self._remember(record)
        replies: list[Decision | Creation | Deletion] = [
            *observed.decisions,
            *observed.creations,
            *observed.deletions,
        ]
        self._by_replica: defaultdict[str, list[tuple[float, Token]]] = defaultdict(list)
        for each in replies:
            if each.token is not None:
                self._by_replica[each.replica].append((each.ended, each.token))
        self._anywhere = _Order(chain.from_iterable(self._by_replica.values()))
        self._at = {replica: _Order(of_replica) for replica, of_replica in self._by_replica.items()}

    def faults(self) -> Iterator[str]:
        yield from self._tokens()
        yield from self._decisions()
        yield from self._order()
        yield from self._creations()
        yield from self._deletions()
        yield from self._made_up()
        yield from self._table()

    def _remember(self, record: Record) -> None:
        if isinstance(record, ConfigRecord):
            return
        acl = record.acl
        if isinstance(record, RemoveAccessControlEntryRecord):
            self._lives[acl.id].removed = record.offset
        elif acl.id not in self._lives:
            self._lives[acl.id] = _Life(acl.binding, record.offset)
            self._made_of[acl.binding].append(acl.id)
            self._of_principal[acl.binding.principal].append(acl.id)
            self._of_name[acl.binding.resource_name].append(acl.id)

    def _tokens(self) -> Iterator[str]:
        head = self._store.head
        for replica, replies in self._by_replica.items():
            for _, token in replies:
                if not head.epochs.has(token, head.last_offset):
                    yield f"{replica} named the token {token}, and the store is at {head.epoch}:{head.last_offset}"

    def _decisions(self) -> Iterator[str]:
        """Each against the state at its own token."""
        state, applied = _State(self._store.super_users), 0
        for each in sorted(self._observed.decisions, key=lambda decision: decision.token.offset):
            while applied < min(each.token.offset, len(self._store.records)):
                state.apply(self._store.records[applied])
                applied += 1
            expected = state.allows(each)
            if expected != each.allowed:
                yield f"{each.replica} answered {each.allowed} to {each.questions} of {each.principal} at {each.token}"

    def _order(self) -> Iterator[str]:
        """Nobody is shown a state older than what the same replica has shown before, or than was asked for."""
        for each in self._observed.decisions:
            seen = self._at[each.replica].before(each.began)
            if each.token.offset < seen:
                yield f"{each.replica} answered at {each.token} after it had named offset {seen}"
            if each.at_least is not None and each.token.offset < each.at_least.offset:
                yield f"{each.replica} answered at {each.token} to whom asked for {each.at_least} at least"

    def _creations(self) -> Iterator[str]:
        made_by: dict[UUID, Creation] = {}
        for each in self._observed.creations:
            for binding, (acl_id, created) in zip(each.bindings, each.acls or (), strict=each.acls is not None):
                life = self._lives.get(acl_id)
                if life is None or life.binding != binding:
                    yield f"the acknowledged ACL {acl_id} of {binding} is not in the records"
                elif not self._fits(each, life.made if created else None, life):
                    yield f"the ACL {acl_id} was acknowledged at {each.token}, but lives {life.made} to {life.removed}"
                if created and made_by.setdefault(acl_id, each) is not each:
                    yield f"two calls were told that they made the ACL {acl_id}"

    def _deletions(self) -> Iterator[str]:
        removed_by: dict[UUID, Deletion] = {}
        for each in self._observed.deletions:
            if each.ids is None or each.token is None:
                continue
            for acl_id in each.ids:
                life = self._lives.get(acl_id)
                if life is None or not each.acl_filter.matches(life.binding):
                    yield f"the ACL {acl_id}, removed by {each.acl_filter}, is not one of its ACLs"
                elif not self._fits(each, life.removed, life):
                    yield f"the ACL {acl_id} was removed by {each.token}, but lives {life.made} to {life.removed}"
                if removed_by.setdefault(acl_id, each) is not each:
                    yield f"two calls were told that they removed the ACL {acl_id}"
            yield from self._left(each, each.token)

    def _left(self, deletion: Deletion, token: Token) -> Iterator[str]:
        """ACLs that the filter means, were there all the time, and stayed."""
        began = self._anywhere.before(deletion.began)
        for acl_id in self._named_by(deletion):
            life = self._lives[acl_id]
            if life.made <= began and life.removed > token.offset and deletion.acl_filter.matches(life.binding):
                yield f"the ACL {acl_id} outlived its removal by {deletion.acl_filter} at {token}"

    def _named_by(self, deletion: Deletion) -> Iterable[UUID]:
        principal, name = deletion.acl_filter.principal, deletion.acl_filter.resource_name
        if name is not None and deletion.acl_filter.pattern_type is not PatternType.MATCH:
            return self._of_name[name]
        return self._lives if principal is None else self._of_principal[principal]

    def _fits(self, call: Creation | Deletion, happened: int | None, life: _Life) -> bool:
        """Whether the record is behind all that was replied before the call, and the token not before the record."""
        if call.token is None:
            return True
        began, told = self._anywhere.before(call.began), call.token.offset
        if happened is None:
            return life.made <= told and life.removed > began
        return began < happened <= told

    def _made_up(self) -> Iterator[str]:
        """ACLs that nobody asked for, or whose makers were told that nothing was written."""
        asked = {binding for each in self._observed.creations for binding in each.bindings}
        refused = {binding for each in self._observed.refusals for binding in each.bindings} - asked
        for binding, ids in self._made_of.items():
            if binding in refused:
                yield f"{binding} was refused, and is there as {ids[0]}"
            elif binding not in asked:
                yield f"nobody asked for {binding}, and it is there as {ids[0]}"

    def _table(self) -> Iterator[str]:
        expected = {acl_id: life.binding for acl_id, life in self._lives.items() if life.removed == _NEVER}
        for acl_id in sorted(expected.keys() ^ self._store.acls.keys()):
            where = "the records" if acl_id in expected else "the table"
            yield f"the ACL {acl_id} is only in {where}"
        for acl_id, binding in self._store.acls.items():
            if expected.get(acl_id, binding) != binding:
                yield f"the ACL {acl_id} is {binding} in the table, and {expected[acl_id]} in the records"
