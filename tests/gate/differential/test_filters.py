"""acls(filter) and deleteAcls against Kafka 4.4.0's own answers; describe and delete agree with each other."""

from collections.abc import Iterator

from app.core.image import AuthorizerImage
from app.core.index.search import search
from app.core.index.table import sort_key
from app.core.index.tree import AclIndex
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.validation import validate_filter
from tests.budgets import budget
from tests.images import acl_of, filter_of, image_of
from tests.vectors.loader import Line, lines

EVERY = budget("lines of the vectors")


def found(index: AclIndex, acl_filter: AclBindingFilter) -> list[str]:
    acls = [acl for step in search(index, acl_filter) for acl in step]
    assert acls == sorted(acls, key=lambda acl: sort_key(acl.binding))
    return [str(acl.id) for acl in acls]


def delete(image: AuthorizerImage, filters: list[AclBindingFilter]) -> list[Line]:
    """One deleteAcls call: each filter lists what it means before the call, each ACL goes once."""
    answers: list[Line] = []
    going = {}
    for acl_filter in filters:
        refusal = validate_filter(acl_filter)
        if refusal is not None:
            answers.append({"error": type(refusal).__name__, "message": refusal.message})
            continue
        meant = [acl for step in search(image.index, acl_filter) for acl in step]
        going.update({acl.id: acl for acl in meant})
        answers.append({"deleted": sorted(str(acl.id) for acl in meant)})
    for acl in going.values():
        image.index.remove(acl.binding)
    return answers


def differences(line: Line) -> Iterator[str]:
    image = image_of(map(acl_of, line["acls"]))
    filters = [filter_of(fields) for fields in line["filters"]]
    described = [sorted(found(image.index, acl_filter)) for acl_filter in filters]
    for fields, ids in zip(line["filters"], described, strict=True):
        if ids != sorted(fields["matches"]):
            yield f"line {line['n']} ({line['category']}): {fields}: {ids}"
    deleted = delete(image, filters)
    for fields, answer, expected in zip(line["filters"], deleted, line["delete_all_filters_in_one_call"], strict=True):
        if answer != expected:
            yield f"line {line['n']} ({line['category']}): delete {fields}: {answer}, not {expected}"
    for ids, answer in zip(described, deleted, strict=True):
        if answer.get("deleted", ids) != ids:
            yield f"line {line['n']}: described {ids} but deleted {answer}"
    left = sorted(found(image.index, AclBindingFilter()))
    if left != line["left_after_delete"] or len(image.index) != len(left):
        yield f"line {line['n']}: left {left}"


def test_filters_describe_and_delete_as_kafka() -> None:
    assert [each for line in lines("filters", EVERY) for each in differences(line)] == []


def test_filter_matches_one_binding_at_a_time_as_kafka() -> None:
    for line in lines("filters", 10):
        acls = [acl_of(fields) for fields in line["acls"]]
        for fields in line["filters"]:
            acl_filter = filter_of(fields)
            assert sorted(str(acl.id) for acl in acls if acl_filter.matches(acl.binding)) == sorted(fields["matches"])
