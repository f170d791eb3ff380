"""Proposals on random logs, asked of core: all that was used is allowed, nothing that was denied is."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from random import Random

from app.core.access.proposal import SEVERAL, Proposal, Question, Reason, prefixes_of, propose
from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import ALLOW_MASK
from tests.budgets import seeds
from tests.images import image_of, numbered

ME = "User:orders-api"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE, ALTER = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
HOSTS = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
NAMES = (
    *("orders", "orders-eu", "orders-us", "orders-us.1", "orders-us.2", "orders-us.3", "orders.v1", "orders.v2"),
    *("pay_in", "pay_out", "pay_x", "pay_x-1", "pay", "--a", "--b", "--c", "é.😀", "é.b", "é.c", "kafka-cluster"),
)
ODD = ("*", "", "x" * 32_768)
OPERATIONS = (READ, READ, READ, WRITE, DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)


@dataclass(frozen=True)
class Log:
    """The last answers, the names of all that exists, and the DENYs that stand."""

    last: Mapping[Question, bool]
    known: frozenset[tuple[ResourceType, str]]
    denies: tuple[AclBinding, ...] = ()

    def open(self, *, allowed: bool) -> list[Question]:
        """Those that no DENY settles anyway."""
        return [each for each in self._unsettled if self.last[each] is allowed]

    @cached_property
    def _unsettled(self) -> list[Question]:
        image = _image(self.denies)
        return [each for each in self.last if _rule(image, each) != "MatchingAcl"]

    @cached_property
    def proposal(self) -> Proposal:
        crowds: dict[tuple[ResourceType, str], int] = {}
        for kind, name in self.known:
            for prefix in prefixes_of(name):
                crowds[kind, prefix] = crowds.get((kind, prefix), 0) + 1
        return propose(ME, self.open(allowed=True), self.open(allowed=False), crowds)


def _image(acls: Iterable[AclBinding]) -> AuthorizerImage:
    return image_of(numbered(acls), AuthorizerConfig())


def _rule(image: AuthorizerImage, question: Question) -> str:
    return _decided(image, question)[1]


def _allows(image: AuthorizerImage, question: Question) -> bool:
    return _decided(image, question)[0]


def _decided(image: AuthorizerImage, question: Question) -> tuple[bool, str]:
    kind, name, operation, host = question
    verdict = Authorization(image, ME, parse_address(host)).decide(operation, kind, name)
    return verdict.allowed, verdict.rule_word


def random_log(seed: int) -> Log:
    """Every other one is as ACLs would have answered, the others are as nobody would have."""
    draw = Random(seed)
    names = draw.sample(NAMES, draw.randint(2, 12))
    hosts = HOSTS[: draw.randint(1, 3)]
    questions = {
        Question(
            draw.choice((TOPIC, TOPIC, TOPIC, GROUP, CLUSTER)),
            draw.choice(names if draw.random() < 0.97 else ODD),
            draw.choice(OPERATIONS if draw.random() < 0.97 else tuple(AclOperation)),
            draw.choice(hosts),
        )
        for _ in range(draw.randint(1, 60))
    }
    asked = sorted(questions)
    known = {(each.resource_type, each.resource_name) for each in asked}
    known |= {(TOPIC, draw.choice(NAMES)) for _ in range(draw.randint(0, 3))}
    denies = tuple(_random_acl(draw, names, hosts, DENY) for _ in range(draw.randint(0, 2)))
    if seed % 2:
        acls = [_random_acl(draw, names, hosts, ALLOW) for _ in range(draw.randint(1, 8))]
        image = _image(dict.fromkeys([*denies, *acls]))
        return Log({each: _allows(image, each) for each in asked}, frozenset(known), denies)
    share = draw.choice((0.3, 0.8, 0.95, 1))
    return Log({each: draw.random() < share for each in asked}, frozenset(known), denies)


def _random_acl(draw: Random, names: list[str], hosts: tuple[str, ...], permission: AclPermissionType) -> AclBinding:
    name = draw.choice(names)
    pattern = draw.choice((LITERAL, PREFIXED))
    short = name[: draw.randint(1, len(name))] if pattern is PREFIXED else draw.choice((name, name, "*"))
    operation = draw.choice((*OPERATIONS, AclOperation.ALL))
    return AclBinding(
        draw.choice((TOPIC, GROUP)), short, pattern, ME, draw.choice(("*", *hosts)), operation, permission
    )


def test_all_that_was_used_is_allowed_and_nothing_that_was_denied() -> None:
    for seed in seeds("proposals"):
        log = random_log(seed)
        acls = log.proposal.acls
        image = _image(dict.fromkeys([*acls, *log.denies]))
        for question in log.open(allowed=True):
            assert _allows(image, question) is (question not in log.proposal.left_out), (seed, question)
        for question, was in log.last.items():
            assert was or not _allows(image, question), (seed, question)
        assert len(set(acls)) == len(acls)
        assert set(log.proposal.left_out) <= set(log.open(allowed=True))
        for question, reason in log.proposal.left_out.items():
            assert (reason is Reason.DENIED_TOO) is _is_contradicted(question, log), (seed, question)


def test_a_prefix_catches_no_name_that_was_not_used_so_and_no_acl_is_one_too_many() -> None:
    for seed in seeds("proposals"):
        log = random_log(seed)
        allowed = [each for each in log.open(allowed=True) if each not in log.proposal.left_out]
        for acl in log.proposal.acls:
            assert _is_person_like(acl, log) or acl.pattern_type is LITERAL, (seed, acl)
            assert acl.pattern_type is LITERAL or _catches_only_what_was_used(acl, log), (seed, acl)
            others = _image(each for each in log.proposal.acls if each != acl)
            assert not all(_allows(others, each) for each in allowed), (seed, acl)


def test_fewer_acls_would_rarely_do() -> None:
    proposed = fewest_alike = fewest = 0
    for seed in seeds("fewest proposals"):
        log = random_log(seed)
        wanted = {each for each in log.open(allowed=True) if each not in log.proposal.left_out}
        if not 0 < len(wanted) <= 14:
            continue
        candidates = {acl: allowed for acl in _candidates(wanted, log) if (allowed := _allowed_by(acl, wanted))}
        alike = {acl: allowed for acl, allowed in candidates.items() if _is_person_like(acl, log)}
        best = _fewest(wanted, list(alike.values()))
        assert best <= len(log.proposal.acls), seed
        proposed += len(log.proposal.acls)
        fewest_alike += best
        fewest += _fewest(wanted, list(candidates.values()))
    print(f"{proposed} ACLs are proposed, {fewest_alike} of their kind would do, {fewest} with any prefix at all")
    assert proposed <= 1.01 * fewest_alike
    assert proposed <= 1.25 * fewest


def _is_contradicted(question: Question, log: Log) -> bool:
    kind, name, operation, host = question
    if name in ODD or operation <= AclOperation.ALL or (kind is CLUSTER and name != "kafka-cluster"):
        return False
    return any(
        (each.resource_type, each.resource_name, each.host) == (kind, name, host)
        and ALLOW_MASK[operation] >> each.operation & 1
        for each in log.open(allowed=False)
    )


def _is_person_like(acl: AclBinding, log: Log) -> bool:
    if acl.pattern_type is LITERAL:
        return True
    kind, prefix = acl.resource_type, acl.resource_name
    caught = [name for each, name in log.known if each is kind and name.startswith(prefix)]
    return len(caught) >= SEVERAL and prefix in prefixes_of(caught[0])


def _catches_only_what_was_used(acl: AclBinding, log: Log) -> bool:
    def was_used(name: str) -> bool:
        return any(
            (each.resource_type, each.resource_name) == (acl.resource_type, name)
            and acl.host in ("*", each.host)
            and ALLOW_MASK[each.operation] >> acl.operation & 1
            for each in log.open(allowed=True)
        )

    return all(
        was_used(name) for kind, name in log.known if kind is acl.resource_type and name.startswith(acl.resource_name)
    )


def _candidates(wanted: set[Question], log: Log) -> Iterator[AclBinding]:
    """Every ACL that allows something used, nothing denied, and catches no name that was not used so."""
    denied = log.open(allowed=False)
    seen = set()
    for kind, name, operation, host in sorted(wanted):
        patterns = [(LITERAL, name), *((PREFIXED, name[:length]) for length in range(1, len(name) + 1))]
        for pattern, text in patterns:
            for where in ("*", host):
                acl = AclBinding(kind, text, pattern, ME, where, operation, ALLOW)
                if acl not in seen:
                    seen.add(acl)
                    image = _image([acl])
                    safe = not any(_allows(image, each) for each in denied)
                    if safe and (pattern is LITERAL or _catches_only_what_was_used(acl, log)):
                        yield acl


def _allowed_by(acl: AclBinding, wanted: set[Question]) -> frozenset[Question]:
    image = _image([acl])
    return frozenset(each for each in wanted if _allows(image, each))


def _fewest(wanted: set[Question], sets: list[frozenset[Question]]) -> int:
    """How many of the sets are needed to have all that is wanted: by trying, and greatest first."""
    useful = [each for each in set(sets) if not any(each < other for other in sets)]
    return next(
        number
        for number in range(1, len(wanted) + 1)
        if any(wanted == set().union(*some) for some in combinations(useful, number))
    )
