"""ACLs as Confluent's REST proxy (v3) writes them: a KafkaAclList, a body of `acls:batch`, or one ACL.

And as Confluent's CLI lists them: `confluent kafka acl list` with `--output json` or `--output yaml`. Words that the
proxy's own list lacks (USER, CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT) stand as Kafka spells them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, TextIO

import msgspec
from msgspec import UNSET, UnsetType

from app.core.kafka.bindings import AclBinding
from app.formats.acl_entries import Entry, FieldPlace, Problem, acl_of
from app.formats.acl_json import binding_json, write_json_list
from app.formats.reading import Cluster, Reading
from app.formats.shape_faults import Refused
from app.formats.shape_reader import read_each, read_one, read_shape
from app.formats.shapes import Each, OperationWord, PatternTypeWord, PermissionTypeWord, ResourceTypeWord, Shape
from app.formats.source import Outline, Source
from app.formats.yaml_documents import Fields, Items, Value, fields_of, is_null

_CALLED = {"permission_type": "permission"}
_DATA = "data"


class _Metadata(Shape):
    own: str | None = msgspec.field(name="self", default=None)
    resource_name: str | None = None


class _ListMetadata(_Metadata):
    first: str | None = None
    last: str | None = None
    prev: str | None = None
    next: str | None = None
    total_size: int | None = None


class KafkaAcl(Shape, kw_only=True):
    """One ACL, of the proxy or of the CLI. `cluster_id` says of which cluster it is."""

    resource_type: ResourceTypeWord
    resource_name: str
    pattern_type: PatternTypeWord
    principal: str
    host: str | UnsetType = UNSET
    operation: OperationWord
    permission: PermissionTypeWord
    kind: Literal["KafkaAcl"] | None = None
    metadata: _Metadata | None = None
    cluster_id: str | None = None


class KafkaAclList(Shape):
    """The proxy's reply to a list of ACLs, or a body of `acls:batch`."""

    data: Each[KafkaAcl]
    kind: Literal["KafkaAclList"] | None = None
    metadata: _ListMetadata | None = None


def is_confluent(outline: Outline) -> bool:
    return outline.has(_DATA, kind="[") or (outline.has("permission") and not outline.has("permission_type"))


def read_confluent(source: Source, reading: Reading) -> Iterator[Entry]:
    for document in source.documents():
        names = fields_of(document).keys() if isinstance(document, Fields) else ()
        if isinstance(document, Items):
            yield from read_each(document, partial(_acl, reading))
        elif _DATA not in names and not _OWN_FIELDS.isdisjoint(names):
            yield from read_one(partial(_acl, reading, document))
        elif not is_null(document):
            yield from _list(document, reading)


def write_confluent(bindings: Sequence[AclBinding], out: TextIO) -> None:
    write_json_list(_DATA, (binding_json(each, permission="permission") for each in bindings), out)


def _list(document: Value, reading: Reading) -> Iterator[Entry]:
    try:
        listing = read_shape(KafkaAclList, document, reading)
        if listing.metadata is not None and listing.metadata.next is not None:
            text = "there are more pages; give the ACLs of all of them, without this field"
            yield listing.metadata.line, [Problem(text, ("metadata", "next"))]
    except Refused as refused:
        yield from refused.entries()
    if isinstance(document, Fields):
        acl = partial(_acl, reading, place=(_DATA,), within=KafkaAclList)
        yield from read_each(fields_of(document).get(_DATA), acl)


def _acl(
    reading: Reading, value: Value, *, place: FieldPlace = (), within: type[msgspec.Struct] | None = None
) -> Entry | None:
    found = read_shape(KafkaAcl, value, reading, place, within)
    if found.host is UNSET:
        text = (
            "the field is missing; Confluent's CLI leaves it out for Confluent Cloud: list the ACLs with REST, GET "
            "/kafka/v3/clusters/<id>/acls"
        )
        return found.line, [Problem(text, (*place, "host"))]
    takes = reading.takes(Cluster(found.cluster_id), found.line)
    if isinstance(takes, Problem):
        return found.line, [Problem(takes, (*place, "cluster_id"))]
    words = {name: getattr(found, _CALLED.get(name, name)) for name in AclBinding._fields}
    return (found.line, acl_of(**words)) if takes else None


_OWN_FIELDS = frozenset({*AclBinding._fields, "permission"})
