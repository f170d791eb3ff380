"""Core's answers for one bucket of the replay: its ACLs come first, then its questions. Plain Python, no Spark.

Both sides of a change are asked at once: every ACL says whether it exists before the change, after it, or both.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from uuid import UUID

from app.core.authorize import Authorization
from app.core.grouped import authorization_of
from app.core.groups import Groups, groups_of, is_group
from app.core.image import AuthorizerImage, ImageBuilder
from app.core.kafka.bindings import AclRow
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.core.records import GENESIS_HASH, FeedHead
from app.core.verdicts import Verdict

BEFORE, AFTER, BOTH = 1, 2, 3
"""Bits: on which side of a change an ACL exists."""

Answer = tuple[str, str, str | None]
"""Result, rule and the id of the deciding ACL, if any."""

Question = tuple[str, str, int, int, str, Sequence[str] | None]
"""Principal, host, operation, resource type, resource name, names of groups."""

_PLAIN: dict[Verdict, Answer] = {each: (each.result.value, each.rule_word, None) for each in Verdict}
SUPER_USER, DEFAULT_ALLOW = _PLAIN[Verdict.SUPER_USER], _PLAIN[Verdict.DEFAULT_ALLOW]

_HEAD = FeedHead("", UUID(int=0), 0, GENESIS_HASH, 1)
_KEPT_CALLERS = 10_000


class Side:
    def __init__(self) -> None:
        self._builder = ImageBuilder(AuthorizerConfig())
        self._with_hosts: set[str] = set()
        self._last: tuple[str, int, int, str, Groups | None] | None = None
        self._last_answer: Answer = SUPER_USER
        self._callers: dict[tuple[str, Groups | None], Authorization] = {}
        self._ids: dict[int, str] = {}
        self._caller: str | None = None
        self._by_host = False

    def add(self, rows: Sequence[AclRow]) -> None:
        """Fast if those on one pattern are adjacent. Nothing may be added once a question was asked."""
        self._builder.add_rows(rows)
        self._with_hosts.update(row[6] for row in rows if row[7] != WILDCARD)

    def answer(self, question: Question) -> Answer:
        """Fast if questions with the same principal, resource and operation follow each other."""
        principal, host, operation, resource_type, name, names = question
        groups = groups_of(names) if names else None
        if principal != self._caller or len(self._callers) > _KEPT_CALLERS:
            self._caller, self._callers = principal, {}
            self._by_host = principal in self._with_hosts or WILDCARD_PRINCIPAL in self._with_hosts
        # INVARIANT: a host matters only if an ACL with a host other than `*` applies to the caller.
        by_host = self._by_host or (groups is not None and not self._with_hosts.isdisjoint(groups.principals))
        key = (principal, operation, resource_type, name, groups)
        if key == self._last and not by_host:
            return self._last_answer
        caller = self._callers.get((host, groups))
        if caller is None:
            caller = authorization_of(self._image, principal, parse_address(host), groups)
            self._callers[host, groups] = caller
        verdict = caller.decide(operation, resource_type, name)
        row = caller.deciding_row(verdict, operation, resource_type, name)
        answer = _PLAIN[verdict]
        if row is not None:
            acl_id = self._ids.get(row)
            if acl_id is None:
                acl_id = self._ids[row] = str(UUID(bytes=caller.acl_id_at(row)))
            answer = (answer[0], answer[1], acl_id)
        self._last, self._last_answer = key, answer
        return answer

    @cached_property
    def _image(self) -> AuthorizerImage:
        return self._builder.build(_HEAD)


class Bucket:
    """Both sides of a change for one bucket. First the ACLs that it touches, then the others, then the questions."""

    def __init__(self) -> None:
        self.before = Side()
        self.after = Side()
        self._changed: set[str] = set()

    def add_changed(self, rows: Sequence[AclRow], sides: Sequence[int]) -> None:
        self.before.add([row for row, side in zip(rows, sides, strict=True) if side & BEFORE])
        self.after.add([row for row, side in zip(rows, sides, strict=True) if side & AFTER])
        self._changed.update(row[6] for row in rows)

    def add(self, rows: Sequence[AclRow]) -> None:
        self.before.add(rows)
        # A principal whose ACLs do not change, nor those of groups or `User:*`, gets the answer from before: no second
        # image.
        if self._changes_for_many:
            self.after.add(rows)
        elif self._changed:
            wanted = self._changed | {WILDCARD_PRINCIPAL}
            self.after.add([row for row in rows if row[6] in wanted or is_group(row[6])])

    def answers(self, questions: Iterable[Question]) -> tuple[list[Answer], list[Answer]]:
        ask_before, ask_after, changed = self.before.answer, self.after.answer, self._changed
        before, after = [], []
        many = self._changes_for_many
        for question in questions:
            answer = ask_before(question)
            before.append(answer)
            after.append(ask_after(question) if many or question[0] in changed else answer)
        return before, after

    @property
    def _changes_for_many(self) -> bool:
        """Whether ACLs that apply to more than one principal change."""
        return any(each == WILDCARD_PRINCIPAL or is_group(each) for each in self._changed)
