"""The resource `kafka_acl` of Terraform's Kafka provider (Mongey/kafka): its fields, its words, and what isn't one.

The provider's words are its own: Topic, TransactionalID, Literal, DescribeConfigs. It has no ACLs on users, and none of
the operations on tokens and transactions that Kafka got later.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypeAlias

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType
from app.core.spelling import nearest
from app.formats.acl_entries import MAX_SHOWN, Entry, FieldPlace, Problem, acl_of
from app.formats.reading import Reading
from app.formats.shape_faults import Fault
from app.formats.shapes import Shape, as_text, no_such_word
from app.formats.words import spellings
from app.formats.yaml_documents import Fields, Items, Scalar, Value, fields_of, line_of

KIND = "kafka_acl"
DEFAULT_PROVIDER = "kafka"
"""The provider configuration of resources that name none: the first word of their type."""

RESOURCE_TYPES = {
    "Topic": "TOPIC",
    "Group": "GROUP",
    "Cluster": "CLUSTER",
    "TransactionalID": "TRANSACTIONAL_ID",
    "DelegationToken": "DELEGATION_TOKEN",
}
PATTERN_TYPES = spellings(PatternType)
OPERATIONS = spellings(AclOperation, up_to=AclOperation.IDEMPOTENT_WRITE)
PERMISSION_TYPES = spellings(AclPermissionType)

TEMPLATE = re.compile(r"(\$+|%+)\{")
ONLY_TERRAFORM = "only Terraform can tell what that makes; write it out, or give what `terraform show -json` prints"

_ACL_FIELDS = frozenset({"acl_principal", "acl_operation", "acl_permission_type", "resource_pattern_type_filter", KIND})
"""Where one of these stands in a resource of another type, its type may be wrong, or the field is not in its place."""

_BROKERS = ("kafka", "redpanda", "warpstream", "msk", "event_streams")
_ACL = re.compile(r"(?:^|[^a-z])acls?(?:$|[^a-z])")
_ALMOST = 0.75
"""How alike a type of `kafka_acl`'s length is with two letters changed."""


def _word_in(known: Mapping[str, str], text: str) -> str:
    word = known.get(text)
    if word is None:
        if TEMPLATE.search(text) is not None:
            raise ValueError(f"a template, and {ONLY_TERRAFORM}")
        raise ValueError(no_such_word(text, list(known)))
    return word


PatternTypeWord: TypeAlias = Annotated[str, as_text(lambda text: _word_in(PATTERN_TYPES, text))]


class AclFields(Shape):
    """The fields of the resource, and the words of Kafka for those of the provider."""

    resource_name: str
    resource_type: Annotated[str, as_text(lambda text: _word_in(RESOURCE_TYPES, text))]
    resource_pattern_type_filter: PatternTypeWord
    acl_principal: str
    acl_host: str
    acl_operation: Annotated[str, as_text(lambda text: _word_in(OPERATIONS, text))]
    acl_permission_type: Annotated[str, as_text(lambda text: _word_in(PERMISSION_TYPES, text))]

    def acl(self) -> NewAcl | list[Problem]:
        return acl_of(**{name: getattr(self, _CALLED.get(name, name)) for name in AclBinding._fields}, called=_CALLED)


_CALLED = {
    "pattern_type": "resource_pattern_type_filter",
    "principal": "acl_principal",
    "host": "acl_host",
    "operation": "acl_operation",
    "permission_type": "acl_permission_type",
}


def refusal_of_type(kind: str) -> str | None:
    """Why what is of this type can't be passed over; None if it holds no ACLs of Kafka."""
    if kind == KIND:
        return "the provider has nothing but resources of this type; write it as a `resource`, or leave it out"
    lower = kind.lower()
    if nearest(lower, [KIND], likeness=_ALMOST) is not None:
        return f"Klamm knows no such type; did you mean `{KIND}`? Or else leave it out"
    if _ACL.search(lower) is not None and any(each in lower for each in _BROKERS):
        return f"only resources of type `{KIND}` are read; write its ACL as one, or leave it out"
    return None


def refusal_of_acls_in(value: Value, place: FieldPlace) -> Fault | None:
    """Why this part of a file can't be passed over, and where: it has fields of the resource. None if it can."""
    values: list[Value] = [value]
    while values:
        each = values.pop()
        if isinstance(each, Fields):
            name = next((name for name, _ in each.value if name.value in _ACL_FIELDS), None)
            if name is not None:
                text = f"only `{KIND}` resources have this; correct its type or its place"
                return line_of(name), Problem(text, (*place, name.value))
            values += [inside for _, inside in each.value if not isinstance(inside, Scalar)]
        elif isinstance(each, Items):
            values += [inside for inside in each.value if not isinstance(inside, Scalar)]
    return None


def within(problems: Sequence[Problem], resource: str) -> list[Problem]:
    """The same problems, with the resource that they are of: what Terraform prints is all on one line."""
    text = f" (of {resource[:MAX_SHOWN]})"
    return [
        Problem(f"{each.removeprefix(f'`{each.place[-1][:MAX_SHOWN]}`: ') if each.place else each}{text}", each.place)
        for each in problems
    ]


def second_cluster(bodies: Value, reading: Reading) -> Iterator[Entry]:
    """Two root modules may configure the provider for two clusters by the same name."""
    for body in bodies.value if isinstance(bodies, Items) else [bodies]:
        configured = _plain(body)
        alias = fields_of(body).get("alias") if isinstance(body, Fields) else None
        name = DEFAULT_PROVIDER if alias is None else f"{DEFAULT_PROVIDER}.{alias.value}"
        elsewhere = reading.files.other_configuration(name, configured, reading.place(line_of(body)))
        if elsewhere is not None:
            text = (
                f"`{name[:MAX_SHOWN]}` is configured in {elsewhere} in another way, so the ACLs may be of two "
                "clusters; give the files of one root module"
            )
            yield line_of(body), [Problem(text, ("provider", DEFAULT_PROVIDER))]


def _plain(value: Value) -> object:
    """What can be compared; None if only Terraform can tell what it is."""
    if isinstance(value, Fields):
        pairs = {key.value: _plain(each) for key, each in value.value if key.value != "//"}
        return None if None in pairs.values() else pairs
    if isinstance(value, Items):
        some = [_plain(each) for each in value.value]
        return None if None in some else some
    return None if TEMPLATE.search(value.value) else (value.tag, value.value)
