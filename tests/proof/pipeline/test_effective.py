from collections import defaultdict
from random import Random

import pytest
from pyspark.sql import SparkSession

from app.core.access.host_keys import client_key, host_key
from app.core.kafka.codes import WILDCARD_PRINCIPAL
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import ClientAddress, parse_address
from app.pipeline.access.effective import Answer, Mask, answers_for, expanded, masks_of, nodes_of
from app.pipeline.history.schemas import MASKS, NODES
from tests.images import image_of
from tests.proof.pipeline.random_stores import (
    RESOURCE_NAMES,
    acl_frame,
    decisions,
    random_acls,
    resource_frame,
)

Resource = tuple[str, str]


def allowed_by_masks(masks: list[Mask], principal: str, address: ClientAddress, operation: int) -> bool | None:
    """The answer from the factored form; None: allow.everyone.if.no.acl.found decides."""
    if not masks:
        return None
    key, allow, deny = client_key(address), 0, 0
    for mask in masks:
        if mask.principal in (principal, WILDCARD_PRINCIPAL) and key.startswith(host_key(mask.host)):
            allow |= mask.allow_mask
            deny |= mask.deny_mask
    return bool(allow & ~deny & 1 << operation)


def allowed_by_answers(answers: list[Answer], principal: str, address: ClientAddress, operation: int) -> bool | None:
    """The answer from the expanded table, None as above."""
    if not answers:
        return None
    own = [each for each in answers if each.principal == principal]
    answering = own or [each for each in answers if each.principal == WILDCARD_PRINCIPAL]
    key = client_key(address)
    matching = (each for each in answering if key.startswith(host_key(each.host)))
    closest = max(matching, key=lambda each: len(host_key(each.host)))
    return bool(closest.effective_mask >> operation & 1)


class Tables:
    """The tables of one random store, collected."""

    def __init__(self, spark: SparkSession, seed: int) -> None:
        self.acls = random_acls(seed, per_type=6 + 8 * (seed % 4))
        masks_frame = masks_of(acl_frame(spark, self.acls)).cache()
        nodes_frame = nodes_of(resource_frame(spark), masks_frame).cache()
        assert masks_frame.columns == MASKS.fieldNames()
        assert nodes_frame.columns == NODES.fieldNames()
        by_pattern: dict[tuple[str, str, str], list[Mask]] = defaultdict(list)
        for row in masks_frame.collect():
            by_pattern[row[0], row[1], row[2]].append(Mask(*row[3:]))
        self.nodes = [tuple(row) for row in nodes_frame.collect()]
        self.masks: dict[Resource, list[Mask]] = defaultdict(list)
        for resource_type, name, pattern_type, pattern_name in self.nodes:
            self.masks[resource_type, name] += by_pattern[resource_type, pattern_type, pattern_name]
        self.answers: dict[Resource, list[Answer]] = defaultdict(list)
        for row in expanded(nodes_frame, masks_frame).collect():
            self.answers[row[0], row[1]].append(Answer(*row[2:]))
        nodes_frame.unpersist()
        masks_frame.unpersist()


@pytest.fixture(scope="module", params=[1, 3])
def tables(request: pytest.FixtureRequest, spark: SparkSession) -> Tables:
    return Tables(spark, request.param)


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_both_forms_answer_every_question_as_core_does(tables: Tables, *, allow_everyone: bool) -> None:
    image = image_of(tables.acls, AuthorizerConfig(allow_everyone_if_no_acl_found=allow_everyone))
    asked = decisions(image)
    drawn = Random(7).sample(sorted(asked), 25_000)
    allowed = 0
    for question in drawn:
        principal, address, resource_type, name, operation = question
        client, resource = parse_address(address), (resource_type, name)
        expected = asked[question]
        by_masks = allowed_by_masks(tables.masks.get(resource, []), principal, client, operation)
        by_answers = allowed_by_answers(tables.answers.get(resource, []), principal, client, operation)
        assert (allow_everyone if by_masks is None else by_masks) == expected, question
        assert by_answers == by_masks, question
        allowed += expected
    assert 500 < allowed < 24_500


def test_the_pair_table_holds_the_rows_that_its_docstring_promises(tables: Tables) -> None:
    assert set(tables.answers) == set(tables.masks)
    for resource, masks in tables.masks.items():
        everyone = [mask for mask in masks if mask.principal == WILDCARD_PRINCIPAL]
        expected = list(answers_for(WILDCARD_PRINCIPAL, everyone))
        for principal in {mask.principal for mask in masks} - {WILDCARD_PRINCIPAL}:
            own = [mask for mask in masks if mask.principal == principal]
            expected += answers_for(principal, [*own, *everyone])
        assert sorted(tables.answers[resource]) == sorted(expected), resource


def test_each_pattern_that_covers_a_resource_stands_beside_it_once(tables: Tables) -> None:
    patterns = {
        (b.resource_type.name, b.pattern_type.name, b.resource_name) for b in (acl.binding for acl in tables.acls)
    }
    expected = [
        (resource_type, name, pattern_type, pattern)
        for resource_type, pattern_type, pattern in patterns
        for name in RESOURCE_NAMES
        if (name.startswith(pattern) if pattern_type == "PREFIXED" else pattern in ("*", name))
    ]
    assert sorted(tables.nodes) == sorted(expected)
