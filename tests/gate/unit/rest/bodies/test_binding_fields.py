"""A body of createAcls in a file and one that is sent: two declarations of the same fields."""

import msgspec

from app.core.kafka.bindings import AclBinding, AclTerms
from app.formats.acl_json import Context, CreateAclsBody, JsonBinding
from app.rest.bodies import acls, fields


def test_files_and_bodies_declare_the_same_fields() -> None:
    in_files, in_bodies = (
        {each.name: (each.default, each.required) for each in msgspec.structs.fields(struct)}
        for struct in (JsonBinding, acls.AclBinding)
    )
    assert in_files == in_bodies
    assert list(in_files) == list(in_bodies) == [*AclBinding._fields, *AclTerms._fields]


def test_what_is_left_out_of_a_body_in_a_file_is_what_may_be_sent() -> None:
    for in_files, in_bodies in (
        (CreateAclsBody, acls.CreateAclsRequest),
        (Context, fields.AuthorizableRequestContext),
    ):
        assert {*in_files.__struct_fields__} - {"line"} == {*in_bodies.__struct_fields__}
