"""What `test_future_codes.py` runs in a copy of `app/` that knows an operation 16 and a resource type 8."""

import io
import pkgutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import app
from app.core.authorize import Authorization
from app.core.explain.misses import Question
from app.core.index.search import search
from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK, from_bit_field, to_int32
from app.core.verdicts import Rule
from app.formats.acl_entries import FormatLimitError
from app.formats.registry import FORMATS, AclFormat
from app.rest.bodies.fields import OPERATION_CODES, RESOURCE_TYPE_CODES
from app.rest.routes.decisions import _shown
from app.store.rows import _OPERATIONS, _RESOURCE_TYPES
from tests.acl_sets import entries
from tests.advice import explained
from tests.images import image_of, numbered
from tests.reference import Reference
from tests.strategies import CONCRETE_OPERATIONS, CONCRETE_TYPES

OPERATION, TYPE = AclOperation["FUTURE_OPERATION"], ResourceType["FUTURE_TYPE"]
ALICE, ADDRESS = "User:alice", parse_address("10.0.0.1")
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
FUTURE = AclBinding(TYPE, "orders", PatternType.LITERAL, ALICE, WILDCARD, OPERATION, DENY)
OF_OTHER_TOOLS = ("strimzi", "terraform")


def authorization(*acls: AclBinding) -> Authorization:
    return Authorization(image_of(numbered(acls)), ALICE, ADDRESS)


def neighbours() -> Iterator[AclBinding]:
    """Every ACL in which at least one code is new."""
    for operation, resource_type, pattern_type, permission_type in product(
        CONCRETE_OPERATIONS, CONCRETE_TYPES, (PatternType.LITERAL, PatternType.PREFIXED), (DENY, ALLOW)
    ):
        if operation is OPERATION or resource_type is TYPE:
            yield FUTURE._replace(
                resource_type=resource_type,
                pattern_type=pattern_type,
                operation=operation,
                permission_type=permission_type,
            )


def test_this_is_the_copy() -> None:
    assert Path(str(app.__file__)).parents[1] == Path(__file__).parents[1]
    assert (OPERATION, TYPE) == (16, 8)


def test_every_module_loads() -> None:
    for module in pkgutil.walk_packages(app.__path__, "app."):
        if not module.name.endswith("__main__"):
            __import__(module.name)


@pytest.mark.parametrize("acl", list(neighbours()), ids=str)
def test_an_acl_speaks_of_its_own_codes_only(acl: AclBinding) -> None:
    alone, among = authorization(acl), authorization(acl, *allow_all())
    scan, scan_among = Reference([acl]), Reference([acl, *allow_all()])
    for operation, resource_type in product(CONCRETE_OPERATIONS, CONCRETE_TYPES):
        question = (ALICE, ADDRESS.text, operation, resource_type, "orders")
        verdict = alone.decide(operation, resource_type, "orders")
        assert verdict.allowed is scan.authorize(*question)
        assert among.decide(operation, resource_type, "orders").allowed is scan_among.authorize(*question)
        masks = ALLOW_MASK if acl.permission_type is ALLOW else DENY_MASK
        speaks = resource_type is acl.resource_type and bool(masks[acl.operation] >> operation & 1)
        assert (verdict.rule is Rule.MATCHING_ACL) is speaks
        assert not (speaks and acl.permission_type is DENY and verdict.allowed)
        by_type = alone.authorize_by_resource_type(operation, resource_type).allowed
        assert by_type is scan.authorize_by_resource_type(ALICE, ADDRESS.text, operation, resource_type)


def allow_all() -> list[AclBinding]:
    return [
        AclBinding(each, WILDCARD, PatternType.LITERAL, ALICE, WILDCARD, AclOperation.ALL, ALLOW)
        for each in CONCRETE_TYPES
    ]


@pytest.mark.parametrize("acl", list(neighbours()), ids=str)
def test_an_acl_is_found_and_read_back(acl: AclBinding) -> None:
    index = image_of(numbered([acl, *allow_all()])).index
    wanted = AclBindingFilter(acl.resource_type, operation=acl.operation, permission_type=acl.permission_type)
    found = [each.binding for step in search(index, wanted) for each in step]
    assert acl in found
    assert set(found) == {each for each in (acl, *allow_all()) if wanted.matches(each)}
    index.remove(acl)
    assert acl not in [each.binding for step in search(index, wanted) for each in step]


def test_a_denial_and_its_way_out_are_explained() -> None:
    question = Question(ALICE, ADDRESS, OPERATION, TYPE, "orders")
    denied = explained(image_of(numbered([FUTURE])), question)
    assert denied.acl is not None
    assert denied.acl.binding == FUTURE
    assert [each.binding for each in denied.denying_acls] == [FUTURE]
    missed = explained(image_of(numbered([FUTURE._replace(resource_name="order", permission_type=ALLOW)])), question)
    assert [each.acl.binding.operation for each in missed.near_misses] == [OPERATION]
    assert missed.smallest_acl == FUTURE._replace(host=ADDRESS.text, permission_type=ALLOW)


def test_authorized_operations_have_a_bit_for_it() -> None:
    allowed = authorization(FUTURE._replace(permission_type=ALLOW)).authorized_operations(TYPE, "orders")
    assert (allowed, from_bit_field(allowed), to_int32(allowed)) == (1 << 16, (OPERATION,), 1 << 16)
    denied = authorization(FUTURE, *allow_all()).authorized_operations(TYPE, "orders")
    assert from_bit_field(denied) == (AclOperation.READ,)


def test_rest_and_store_know_the_words() -> None:
    assert (OPERATION_CODES["FUTURE_OPERATION"], RESOURCE_TYPE_CODES["FUTURE_TYPE"]) == (16, 8)
    assert (_OPERATIONS[16], _RESOURCE_TYPES[8]) == (OPERATION, TYPE)
    error, bits = _shown(TYPE, 1 << OPERATION)
    assert (error.value, bits) == ("CLUSTER_AUTHORIZATION_FAILED", -(2**31))


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_formats_write_and_read_it_or_say_that_their_tool_does_not_know_it(each: AclFormat) -> None:
    out = io.StringIO()
    if each.name in OF_OTHER_TOOLS:
        for acl in (FUTURE._replace(resource_type=ResourceType.TOPIC), FUTURE._replace(operation=AclOperation.READ)):
            with pytest.raises(FormatLimitError):
                each.write([NewAcl(acl)], out)
        assert not out.getvalue()
    else:
        each.write([NewAcl(FUTURE)], out)
        assert [entry for _, entry in entries(out.getvalue().encode(), each)] == [NewAcl(FUTURE)]
