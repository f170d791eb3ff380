"""Section `in-process`: decisions without HTTP, beside a plain scan in the same run and Kafka's own class."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from app.core.authorize import Authorization
from app.core.grouped import GroupedAuthorization
from app.core.groups import Groups
from app.core.image import AuthorizerImage, ImageBuilder
from app.core.kafka.codes import ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import ClientAddress, parse_address
from app.core.records import GENESIS_HASH, FeedHead
from tests.bench.kafka_scan import KafkaScan
from tests.bench.report import Row, Section, Table, prose
from tests.bench.workload import (
    ALONE,
    GROUPS,
    Question,
    Workload,
    cidr,
    grouped,
    nested,
    onetopic,
    realistic,
    rows_in_slices,
)

_METHOD = prose(
    """
    CPU time of one thread around `Authorization(image, principal, address).decide(...)`, 8,192 prepared
    questions a round: the texts are fresh objects, as they come from a decoder, and each question has its own
    caller. There is no decision cache. The plain scan (`tests/bench/kafka_scan.py`) is Kafka's algorithm in the
    same Python, on the same ACLs and questions; before each measurement both are asked the same, and a
    difference fails the run. *Kafka's own* is `StandardAuthorizer` 4.4.0 on Java 17, CPU time a decision,
    measured elsewhere (another machine and day; the lower of two runs): a rough comparison. A caller in 200 groups,
    with some 20,000 ACLs among the others, is measured beside a principal that has all of these ACLs as its own.
    """
)
_ROUNDS, _QUICK_ROUNDS = 5, 3
_QUESTIONS = 8_192
_CHECKED = 300
_SCAN_S = 0.3
_JUDGED = 1_000_000
_TOPIC = int(ResourceType.TOPIC)
_Decide = Callable[[Question], bool]

# Workload, Kafka's own microseconds (0: not measured), bar, goal.
_Case = tuple[Callable[[int], Workload], int, float, float | None, float | None]
_QUICK: tuple[_Case, ...] = (
    (realistic, 1_000, 2.24, 3, 2),
    (realistic, 10_000, 6.02, 3, 2),
    (nested, 10_000, 2_382, 25, None),
    (onetopic, 10_000, 1_015, 3, None),
    (cidr, 1_000, 920, 25, None),
)
_FULL: tuple[_Case, ...] = (
    *_QUICK[:2],
    (realistic, 100_000, 7.68, 5, 3),
    (realistic, 1_000_000, 50.3, 10, 5),
    *_QUICK[2:],
    (nested, 100_000, 2_389, None, None),
)


def in_process(*, quick: bool) -> Section:
    """Decisions of one thread, cold."""
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    rows = [_measured(case, rounds) for case in (_QUICK if quick else _FULL)]
    table = Table("In process, one decision, cold", rows, "plain scan")
    groups = [_with_groups(size, rounds) for size in ((10_000,) if quick else (100_000, 1_000_000))]
    return Section("in-process", _METHOD, [table, Table("A caller in 200 groups", groups, "one principal")])


def _measured(case: _Case, rounds: int) -> Row:
    make, size, kafkas, bar, goal = case
    workload = make(size)
    image, scan = _image(workload), KafkaScan(workload.rows)
    # As in the service: what stays is not looked at again and again by the collector.
    gc.collect()
    gc.freeze()
    _insist_on_agreement(image, scan, workload)
    ours, yardstick = [], []
    for at in range(rounds):
        questions = workload.questions(_QUESTIONS, seed=at)
        ours.append(_core_us(image, questions))
        yardstick.append(_scan_us(scan, questions))
    gc.unfreeze()
    note = f"Kafka's own: {kafkas:,g} us"
    return Row(workload.name, "us a decision", ours, yardstick, bar=bar, goal=goal, note=note)


def _with_groups(size: int, rounds: int) -> Row:
    """200 groups beside one principal that has all of their ACLs as its own, once the groups are merged."""
    workload = grouped(size)
    image, groups = _image(workload), Groups(GROUPS)
    gc.collect()
    gc.freeze()

    def of_groups(asked: Question, address: ClientAddress) -> Authorization:
        return GroupedAuthorization(image, asked.principal, address, groups)

    def alone(_: Question, address: ClientAddress) -> Authorization:
        return Authorization(image, ALONE, address)

    first = _us_of(of_groups, workload.questions(1))
    second = _us_of(of_groups, workload.questions(100))
    for each in workload.questions(_QUESTIONS, seed=99):
        address = parse_address(each.address)
        found = {
            who(each, address).decide(each.operation, _TOPIC, each.resource_name).allowed for who in (of_groups, alone)
        }
        assert len(found) == 1, f"{workload.name}: {each} is answered otherwise by groups"
    ours, yardstick = [], []
    for at in range(rounds):
        questions = workload.questions(_QUESTIONS, seed=at)
        ours.append(_us_of(of_groups, questions))
        yardstick.append(_us_of(alone, questions))
    gc.unfreeze()
    note = f"the first one {first:,.0f} us; the next 100, while groups are being merged, {second:,.0f} us each"
    return Row(workload.name, "us a decision", ours, yardstick, bar=2, of_ratio=True, note=note).judged(
        unless=size < _JUDGED
    )


def _us_of(authorize: Callable[[Question, ClientAddress], Authorization], questions: Sequence[Question]) -> float:
    asked = [(each, parse_address(each.address)) for each in questions]
    began = time.thread_time()
    for question, address in asked:
        authorize(question, address).decide(question.operation, _TOPIC, question.resource_name)
    return (time.thread_time() - began) / len(asked) * 1e6


def _image(workload: Workload) -> AuthorizerImage:
    builder = ImageBuilder(AuthorizerConfig())
    for rows in rows_in_slices(workload.rows):
        builder.add_rows(rows)
    return builder.build(FeedHead("bench", UUID(int=1), 0, GENESIS_HASH, 1))


def _core_us(image: AuthorizerImage, questions: Sequence[Question]) -> float:
    asked = [(each, parse_address(each.address)) for each in questions]
    began = time.thread_time()
    for question, address in asked:
        Authorization(image, question.principal, address).decide(question.operation, _TOPIC, question.resource_name)
    return (time.thread_time() - began) / len(asked) * 1e6


def _scan_us(scan: KafkaScan, questions: Sequence[Question]) -> float:
    """As many of the questions as fit into the time: on nested names each takes milliseconds."""
    began, count = time.thread_time(), 0
    for some in _in_tens(questions):
        for each in some:
            scan.authorize(each.principal, each.address, each.operation, _TOPIC, each.resource_name)
        count += len(some)
        if time.thread_time() - began > _SCAN_S:
            break
    return (time.thread_time() - began) / count * 1e6


def _in_tens(questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
    for at in range(0, len(questions), 10):
        yield questions[at : at + 10]


def _insist_on_agreement(image: AuthorizerImage, scan: KafkaScan, workload: Workload) -> None:
    """Raises AssertionError: the yardstick measures something else."""
    for each in workload.questions(_CHECKED, seed=99):
        core = Authorization(image, each.principal, parse_address(each.address))
        allowed = core.decide(each.operation, _TOPIC, each.resource_name).allowed
        scanned = scan.authorize(each.principal, each.address, each.operation, _TOPIC, each.resource_name)
        assert allowed == scanned, f"{workload.name}: {each} is {allowed} in core, {scanned} in the scan"
