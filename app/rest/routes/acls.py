"""createAcls, deleteAcls, acls, getAcl and aclCount (KIP-140): JSON to bindings and back."""

from datetime import UTC
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import Path
from msgspec import UNSET, UnsetType

from app.core.kafka.bindings import KEEP, AclBinding, NewAcl, StandardAcl
from app.core.kafka.codes import CODED_FIELDS, WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import ApiException, InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.validation import validate_filter
from app.core.mutations import CreatedAcl
from app.core.times import parse_time
from app.rest.bodies import acls as bodies
from app.rest.bodies.fields import check_words, given, seconds
from app.rest.bodies.reading import MAX_ACLS_BODY_BYTES
from app.rest.bodies.writing import to_json, with_list
from app.rest.callers.roles import FOLLOWERS, OBSERVERS
from app.rest.errors import item_outcome
from app.rest.http.arguments import AT_LEAST, Body, CurrentAuthorizer, CurrentContext, CurrentPast, CurrentReader
from app.rest.http.edge import Routes
from app.runtime.pace import Pace, each_paced

routes = Routes("acls")

_post_update = partial(
    routes.post, open_to=FOLLOWERS, pool="updates", max_body_bytes=MAX_ACLS_BODY_BYTES, may_refuse=(409, 412, 504)
)


@_post_update("/v1/acls", name="createAcls", reply=bodies.CreateAclsResponse, example=bodies.CREATE_ACLS_EXAMPLE)
async def create_acls(
    body: Body[bodies.CreateAclsRequest], context: CurrentContext, authorizer: CurrentAuthorizer
) -> bytes:
    """Create ACLs; needs ALTER on the cluster. An ACL that exists keeps its id.

    Answers once the change is durable and this replica decides by it. A refused binding does not affect the others.
    With `if_unchanged_since`, nothing is written if anything has changed since.
    """
    acls = await each_paced(body.bindings, _new_acl)
    results, token = await authorizer.updates.create_acls(
        context, acls, seconds(body.timeout_ms), given(body.if_unchanged_since), given(body.comment)
    )
    return with_list("results", await each_paced(results, _created), {"token": str(token)})


@_post_update("/v1/acls/delete", name="deleteAcls", reply=bodies.DeleteAclsResponse, example=bodies.DELETE_ACLS_EXAMPLE)
async def delete_acls(
    body: Body[bodies.DeleteAclsRequest], context: CurrentContext, authorizer: CurrentAuthorizer
) -> bytes:
    """Delete every ACL that any of the filters matches; needs ALTER on the cluster.

    Answers once the change is durable and this replica decides by it. A refused filter does not affect the others; a
    filter that matches nothing is not an error. With `if_unchanged_since`, nothing is deleted if anything has changed
    since.
    """
    filters = await each_paced(body.filters, _filter)
    results, token = await authorizer.updates.delete_acls(
        context, filters, seconds(body.timeout_ms), given(body.if_unchanged_since), given(body.comment)
    )
    pace = Pace()
    return with_list("results", [await _deleted(each, pace) for each in results], {"token": str(token)})


@routes.post(
    "/v1/acls/search",
    name="acls",
    open_to=FOLLOWERS,
    pool="lists",
    reply=bodies.AclsResponse,
    may_refuse=(409, 410, 504),
    limits_answer=True,
    example=bodies.ACLS_EXAMPLE,
)
async def acls(
    body: Body[bodies.AclsRequest], context: CurrentContext, authorizer: CurrentAuthorizer, past: CurrentPast
) -> bytes:
    """List the ACLs that a filter matches, in pages (DescribeAcls); needs DESCRIBE on the cluster."""
    asked, at = (context, search_filter(body.filter), body.limit, given(body.cursor)), given(body.at)
    page = await (authorizer.acls(*asked) if at is None else past.acls(*asked, at))
    found = await each_paced(page.acls, _found)
    return with_list("acls", found, {"next_cursor": page.next_cursor, "token": str(page.token)})


@routes.get(
    "/v1/acls/count",
    name="aclCount",
    open_to=OBSERVERS,
    dependencies=AT_LEAST,
    may_refuse=(400, 409, 503),
    example=bodies.ACL_COUNT_EXAMPLE,
)
async def acl_count(authorizer: CurrentAuthorizer, reader: CurrentReader) -> bodies.AclCountResponse:
    """Count the ACLs that this replica holds; an admin caller needs DESCRIBE on the cluster."""
    return bodies.AclCountResponse(acl_count=authorizer.acl_count(reader))


@routes.get(
    "/v1/acls/{id:uuid}",
    name="getAcl",
    dependencies=AT_LEAST,
    may_refuse=(400, 404, 409, 503),
    example=bodies.GET_ACL_EXAMPLE,
)
async def get_acl(
    acl_id: Annotated[UUID, Path(alias="id")], authorizer: CurrentAuthorizer, reader: CurrentReader
) -> bodies.Acl:
    """Show one ACL by its id; an admin caller needs DESCRIBE on the cluster."""
    return acl_reply(authorizer.get_acl(reader, acl_id))


def _new_acl(body: bodies.AclBinding) -> NewAcl | ApiException:
    sent = body.expires_at
    try:
        expires_at = parse_time(sent).astimezone(UTC) if isinstance(sent, str) else KEEP if sent is UNSET else None
    except OverflowError:
        return InvalidRequestException("`expires_at` must be within the years 1 to 9999; send null for never")
    return NewAcl(_binding(body), expires_at, KEEP if body.owner is UNSET else body.owner)


def _binding(body: bodies.AclBinding) -> AclBinding:
    return AclBinding(
        ResourceType.from_string(body.resource_type),
        body.resource_name,
        PatternType.LITERAL if body.pattern_type is UNSET else PatternType.from_string(body.pattern_type),
        body.principal,
        WILDCARD if body.host is UNSET else body.host,
        AclOperation.from_string(body.operation),
        AclPermissionType.from_string(body.permission_type),
    )


def _filter(body: bodies.AclBindingFilter) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.from_string(_or_any(body.resource_type)),
        given(body.resource_name),
        PatternType.from_string(_or_any(body.pattern_type)),
        given(body.principal),
        given(body.host),
        AclOperation.from_string(_or_any(body.operation)),
        AclPermissionType.from_string(_or_any(body.permission_type)),
    )


def search_filter(body: bodies.AclBindingFilter) -> AclBindingFilter:
    """The one filter of a request, which is refused as a whole, naming the field. Raises InvalidRequestException."""
    words = ((f"/filter/{name}", given(getattr(body, name)), codes.__members__) for name, codes in CODED_FIELDS.items())
    check_words(*words)
    acl_filter = _filter(body)
    refusal = validate_filter(acl_filter)
    if refusal is not None:
        raise refusal
    return acl_filter


def _or_any(word: str | UnsetType | None) -> str:
    return "ANY" if word is UNSET or word is None else word


_NO_ERROR = item_outcome(None)
_MATCH_BEGINS = to_json(_NO_ERROR)[:-1]


def _created(result: CreatedAcl | ApiException) -> bytes:
    if isinstance(result, ApiException):
        return to_json(bodies.AclCreateResult(**item_outcome(result), id=None, created=False))
    return to_json(bodies.AclCreateResult(**_NO_ERROR, id=result.id, created=result.created))


async def _deleted(result: list[StandardAcl] | ApiException, pace: Pace) -> bytes:
    # Many filters with few matches each take as long as one with many.
    await pace.breathe()
    outcome = item_outcome(result if isinstance(result, ApiException) else None)
    matches = await each_paced([] if isinstance(result, ApiException) else result, _match)
    return b'%b,"matches":[%b]}' % (to_json(outcome)[:-1], b",".join(matches))


def _match(acl: StandardAcl) -> bytes:
    return b"%b,%b" % (_MATCH_BEGINS, _found(acl)[1:])


def _found(acl: StandardAcl) -> bytes:
    return to_json(acl_reply(acl))


def acl_reply(acl: StandardAcl) -> bodies.Acl:
    return bodies.Acl(acl.id, *acl.binding.words, *acl.terms)
