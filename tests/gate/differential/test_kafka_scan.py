"""The yardstick of `make bench` answers as core does, or it would measure something else."""

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.core.authorize import Authorization
from app.core.kafka.bindings import AclBinding
from app.core.kafka.hosts import parse_address
from tests.bench.kafka_scan import KafkaScan
from tests.bench.workload import cidr, nested, onetopic, realistic
from tests.images import image_of, numbered
from tests.strategies import ASKED_NAMES, CONCRETE_OPERATIONS, CONCRETE_TYPES, binding_lists, callers

_questions = st.tuples(
    st.sampled_from(CONCRETE_OPERATIONS), st.sampled_from(CONCRETE_TYPES), st.sampled_from(ASKED_NAMES)
)


@given(binding_lists, callers, st.lists(_questions, min_size=1, max_size=20))
def test_scan_answers_as_core(
    bindings: list[AclBinding], caller: tuple[str, str], questions: Sequence[tuple[int, int, str]]
) -> None:
    acls = numbered(bindings)
    scan, address = KafkaScan(acl.row for acl in acls), parse_address(caller[1])
    core = Authorization(image_of(acls), caller[0], address)
    for operation, resource_type, name in questions:
        scanned = scan.authorize(caller[0], address.text, operation, resource_type, name)
        assert scanned == core.decide(operation, resource_type, name).allowed


def test_about_half_of_the_realistic_questions_are_allowed() -> None:
    workload = realistic(2_000)
    scan = KafkaScan(workload.rows)
    allowed = [
        scan.authorize(each.principal, each.address, each.operation, 2, each.resource_name)
        for each in workload.questions(1_000)
    ]
    assert 400 < sum(allowed) < 600


def test_workloads_have_the_size_they_are_asked_for() -> None:
    for make in (realistic, nested, onetopic, cidr):
        rows = make(1_000).rows
        assert len({row[1:] for row in rows}) == len(rows) == 1_000
        assert rows == sorted(rows, key=lambda row: (row[1], row[5], row[2], row[6], row[7], row[3], row[4]))
        assert random.Random(1).choice(rows)[0]
