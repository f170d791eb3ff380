"""A binding in a file and a binding in a body of createAcls: two declarations of the same fields."""

import msgspec

from app.core.kafka.bindings import AclBinding, AclTerms
from app.formats.acl_json import JsonBinding
from app.rest.bodies import acls


def test_files_and_bodies_declare_the_same_fields() -> None:
    in_files, in_bodies = (
        {each.name: (each.default, each.required) for each in msgspec.structs.fields(struct)}
        for struct in (JsonBinding, acls.AclBinding)
    )
    assert in_files == in_bodies
    assert list(in_files) == list(in_bodies) == [*AclBinding._fields, *AclTerms._fields]
