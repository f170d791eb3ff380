"""whoCan and whatCan: who has access to a resource, and what a principal has access to. Reads: no decisions."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from app.core.access.holdings import Listed
from app.core.access.what import Holding, WhatQuestion
from app.core.access.who import Holder, WhoQuestion
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import ClientAddress, parse_address
from app.core.kafka.operations import from_bit_field, supported_operations, to_bit_field
from app.rest.bodies import access as bodies
from app.rest.bodies.acls import Acl
from app.rest.bodies.fields import Reply, Text, check_words, given, read_groups
from app.rest.bodies.writing import long_entries, with_list
from app.rest.callers.roles import FOLLOWERS, check_principal
from app.rest.errors import invalid_field
from app.rest.http.arguments import Body, CurrentAuthorizer, CurrentContext, CurrentPast
from app.rest.http.edge import Routes
from app.rest.routes.acls import acl_reply
from app.runtime.access import AccessPage

R = TypeVar("R")

routes = Routes("acls")

_post_question = partial(routes.post, open_to=FOLLOWERS, pool="lists", may_refuse=(409, 410))

_OPERATIONS = [each.name for each in AclOperation if each > AclOperation.ALL]
_NO_SINGLE_ONES = (AclOperation.ANY.name, AclOperation.ALL.name)
_TYPES = [each.name for each in ResourceType if each > ResourceType.ANY]


@_post_question("/v1/who-can", name="whoCan", reply=bodies.WhoCanResponse, example=bodies.WHO_CAN_EXAMPLE)
async def who_can(
    body: Body[bodies.WhoCanRequest], context: CurrentContext, authorizer: CurrentAuthorizer, past: CurrentPast
) -> bytes:
    """List who can do what on a resource, from where and by which ACLs, in pages; needs DESCRIBE on the cluster.

    Super users are named only with DESCRIBE_CONFIGS on the cluster.
    """
    question, at = _who_question(body), given(body.at)
    then = None if at is None else await past.of_resource(context, question.resource_type, question.resource_name, at)
    page = await authorizer.who_can(context, question, body.limit, given(body.cursor), then)
    super_users = authorizer.rights.super_users_in(context, page.image)
    shown = {"super_users": sorted(super_users or ()), "super_users_shown": super_users is not None}
    return await _reply(page, _holder, shown)


@_post_question("/v1/what-can", name="whatCan", reply=bodies.WhatCanResponse, example=bodies.WHAT_CAN_EXAMPLE)
async def what_can(
    body: Body[bodies.WhatCanRequest], context: CurrentContext, authorizer: CurrentAuthorizer, past: CurrentPast
) -> bytes:
    """List what a principal can do, on which patterns and by which ACLs, in pages; needs DESCRIBE on the cluster."""
    check_principal(body.principal, "")
    question = WhatQuestion(body.principal, _address(body.host), read_groups(body.groups, ""))
    at = given(body.at)
    then = None if at is None else await past.of_principal(context, question, at)
    page = await authorizer.what_can(context, question, body.limit, given(body.cursor), then)
    return await _reply(page, _holding, {"super_user": body.principal in page.image.config.super_users})


def _who_question(body: bodies.WhoCanRequest) -> WhoQuestion:
    resource, operations = body.resource, given(body.operations) or []
    for at, word in enumerate(operations):
        if word in _NO_SINGLE_ONES:
            raise invalid_field(
                f"/operations/{at}", f"`{word}` is not a single operation; leave out `operations` to ask about all"
            )
    check_words(
        ("/resource/resource_type", resource.resource_type, _TYPES),
        *((f"/operations/{at}", word, _OPERATIONS) for at, word in enumerate(operations)),
    )
    resource_type = ResourceType[resource.resource_type]
    asked = [AclOperation[word] for word in operations] or supported_operations(resource_type)
    return WhoQuestion(resource_type, resource.resource_name, to_bit_field(asked), _address(body.host))


def _address(host: Text) -> ClientAddress | None:
    text = given(host)
    if text is None:
        return None
    try:
        return parse_address(text)
    except InvalidRequestException:
        raise invalid_field(
            "/host", f"`{text[:100]}` is not an IP address; send one such as `10.1.2.3`, or null for all hosts"
        ) from None


def _holder(row: Holder) -> bodies.WhoCanRow:
    return bodies.WhoCanRow(
        principal=row.principal,
        host=row.host,
        operations=_words(row.operations),
        denied=_words(row.denied),
        expires_at=row.ends_at,
        acls=_acls(row.listed),
        acl_count=row.listed.count,
    )


def _holding(row: Holding) -> bodies.WhatCanRow:
    return bodies.WhatCanRow(
        resource_type=row.resource_type.name,
        resource_name=row.resource_name,
        pattern_type=row.pattern_type.name,
        host=row.host,
        operations=_words(row.operations),
        denied=_words(row.denied),
        expires_at=row.ends_at,
        acls=_acls(row.listed),
        acl_count=row.listed.count,
        cut_out=_acls(row.cut_out),
        cut_out_count=row.cut_out.count,
    )


def _words(bits: int) -> list[str]:
    return [each.name for each in from_bit_field(bits)]


def _acls(listed: Listed) -> list[Acl]:
    return list(map(acl_reply, listed.acls))


async def _reply(page: AccessPage[R], body_of: Callable[[R], Reply], rest: Mapping[str, object]) -> bytes:
    rest = {
        **rest,
        "allowed_by_default": page.allowed_by_default,
        "next_cursor": page.next_cursor,
        "token": str(page.image.token),
    }
    return with_list("rows", await long_entries(page.rows, body_of), rest)
