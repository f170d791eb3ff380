"""A user's program around the generated Python client: story.py URL_OF_A_SERVICE URL_OF_ONE_WITHOUT_ITS_STORE."""

import asyncio
import sys
import uuid
from http import HTTPStatus
from typing import TypeVar

from klamm_client import Client
from klamm_client.api.acls import acl_count, acls, create_acls, delete_acls, get_acl
from klamm_client.api.decisions import (
    authorize,
    authorize_by_resource_type,
    authorized_operations,
    explain,
    list_groups,
)
from klamm_client.models import (
    Acl,
    AclBinding,
    AclBindingFilter,
    AclCountResponse,
    AclOperation,
    AclsRequest,
    AclsResponse,
    Action,
    AuthorizableRequestContext,
    AuthorizationResult,
    AuthorizeByResourceTypeRequest,
    AuthorizeByResourceTypeResponse,
    AuthorizedOperationsRequest,
    AuthorizedOperationsResponse,
    AuthorizeRequest,
    AuthorizeResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    ExplainRequest,
    ExplainResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    Problem,
    ResourceReference,
)
from klamm_client.types import UNSET

T = TypeVar("T")

ADMIN = AuthorizableRequestContext("User:admin", "127.0.0.1")
ALICE = AuthorizableRequestContext("User:alice", "10.1.2.3", client_id="story", correlation_id=7)
READ = Action("READ", "TOPIC", "orders.created")
WRITE = Action("WRITE", "TOPIC", "orders.created")
ALLOWED: AuthorizationResult = "ALLOWED"
DENIED: AuthorizationResult = "DENIED"


def got(kind: type[T], answer: object) -> T:
    """The answer, which must be of this kind."""
    assert isinstance(answer, kind), answer
    return answer


def refused(answer: object, status: HTTPStatus, code: str, *, retriable: bool = False) -> Problem:
    problem = got(Problem, answer)
    assert (problem.status, problem.code, problem.retriable) == (status, code, retriable), problem
    return problem


def alices(operation: AclOperation) -> AclBinding:
    return AclBinding(
        "TOPIC",
        "orders.",
        principal="User:alice",
        operation=operation,
        permission_type="ALLOW",
        pattern_type="PREFIXED",
    )


def ask(client: Client, *actions: Action, at_least: str | None = None) -> object:
    return authorize.sync(client=client, body=AuthorizeRequest(ALICE, list(actions), at_least=at_least or UNSET))


def not_ready(closed: Client) -> None:
    """Before its first load a service says so, in a way that a program can act on."""
    reply = authorize.sync_detailed(client=closed, body=AuthorizeRequest(ALICE, [READ]))
    assert reply.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert int(reply.headers["retry-after"]) >= 1
    refused(reply.parsed, HTTPStatus.SERVICE_UNAVAILABLE, "AUTHORIZER_NOT_READY", retriable=True)
    allowed = authorize.sync(client=closed, body=AuthorizeRequest(ADMIN, [READ]))
    answer = got(AuthorizeResponse, allowed)
    assert (answer.results, answer.token) == ([ALLOWED], None)
    assert got(AclCountResponse, acl_count.sync(client=closed)).acl_count == -1


def created(client: Client) -> str:
    """Some are created, one is refused; the token is of a state that has them."""
    impossible = alices("ANY")
    bindings = [alices("READ"), alices("DESCRIBE"), impossible]
    answer = got(CreateAclsResponse, create_acls.sync(client=client, body=CreateAclsRequest(ADMIN, bindings)))
    assert [result.created for result in answer.results] == [True, True, False]
    assert [result.code for result in answer.results] == ["NONE", "NONE", "INVALID_REQUEST"]
    assert [result.error_code for result in answer.results] == [0, 0, 42]
    assert answer.results[2].id is None
    assert answer.results[2].error_message
    first = answer.results[0].id
    assert isinstance(first, uuid.UUID)
    assert got(Acl, get_acl.sync(first, client=client)).operation == "READ"
    again = got(CreateAclsResponse, create_acls.sync(client=client, body=CreateAclsRequest(ADMIN, bindings[:1])))
    assert (again.results[0].created, again.results[0].id) == (False, first)
    assert answer.token is not None
    return answer.token


def decided(client: Client, token: str) -> None:
    answer = got(AuthorizeResponse, ask(client, READ, WRITE, at_least=token))
    assert answer.results == [ALLOWED, DENIED]
    epoch, _, offset = token.partition(":")
    refused(
        ask(client, READ, at_least=f"{epoch}:{int(offset) + 1000}"),
        HTTPStatus.SERVICE_UNAVAILABLE,
        "OFFSET_NOT_AVAILABLE",
        retriable=True,
    )
    refused(ask(client, READ, at_least=f"{uuid.uuid4()}:1"), HTTPStatus.CONFLICT, "TOKEN_EPOCH_MISMATCH")
    later = asyncio.run(authorize.asyncio(client=client, body=AuthorizeRequest(ALICE, [WRITE, READ], token)))
    assert got(AuthorizeResponse, later).results == [DENIED, ALLOWED]

    anywhere = AuthorizeByResourceTypeRequest(ALICE, "READ", "TOPIC")
    by_type = authorize_by_resource_type.sync(client=client, body=anywhere)
    assert got(AuthorizeByResourceTypeResponse, by_type).result == ALLOWED
    groups = list_groups.sync(client=client, body=ListGroupsRequest(ALICE, ["billing"]))
    assert got(ListGroupsResponse, groups).groups == []


def operations_told(client: Client) -> None:
    """KIP-430: a bit field, its names, and the refusal of one resource that hinders no other."""
    topics = [ResourceReference("TOPIC", name) for name in ("orders.created", "invoices")]
    body = AuthorizedOperationsRequest(ALICE, topics)
    mine, other = got(AuthorizedOperationsResponse, authorized_operations.sync(client=client, body=body)).results
    assert mine.authorized_operations == 1 << 3 | 1 << 8
    assert mine.operations == ["READ", "DESCRIBE"]
    assert (other.code, other.authorized_operations, other.operations) == ("TOPIC_AUTHORIZATION_FAILED", -(2**31), [])


def explained(client: Client) -> None:
    """Why, and what would have to be there."""
    answer = explain.sync(client=client, body=ExplainRequest(ALICE, [READ, WRITE]))
    yes, no = got(ExplainResponse, answer).results
    assert (yes.result, no.result, no.acl) == (ALLOWED, DENIED, None)
    assert yes.acl is not None
    assert yes.acl.resource_name == "orders."
    assert no.smallest_acl is not None
    assert (no.smallest_acl.operation, no.smallest_acl.principal) == ("WRITE", "User:alice")


def searched(client: Client) -> None:
    """Page by page, until there is no next one."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        wanted = AclBindingFilter(principal="User:alice", resource_type="TOPIC")
        body = AclsRequest(ADMIN, wanted, limit=1, cursor=cursor or UNSET)
        page = got(AclsResponse, acls.sync(client=client, body=body))
        found += [acl.operation for acl in page.acls]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == ["READ", "DESCRIBE"]
    assert got(AclCountResponse, acl_count.sync(client=client)).acl_count == len(found)


def refusals_told(client: Client) -> None:
    """What is wrong comes as a Problem, typed, whatever the call."""
    forbidden = create_acls.sync(client=client, body=CreateAclsRequest(ALICE, [alices("ALL")]))
    assert refused(forbidden, HTTPStatus.FORBIDDEN, "CLUSTER_AUTHORIZATION_FAILED").error_code == 31
    refused(get_acl.sync(uuid.uuid4(), client=client), HTTPStatus.NOT_FOUND, "RESOURCE_NOT_FOUND")
    wrong = acls.sync(client=client, body=AclsRequest(ADMIN, AclBindingFilter(), limit=0))
    problem = refused(wrong, HTTPStatus.BAD_REQUEST, "INVALID_REQUEST")
    assert problem.errors
    assert [field.pointer for field in problem.errors] == ["/limit"]


def deleted(client: Client) -> None:
    mine = AclBindingFilter(principal="User:alice")
    answer = got(DeleteAclsResponse, delete_acls.sync(client=client, body=DeleteAclsRequest(ADMIN, [mine])))
    assert sorted(match.operation for match in answer.results[0].matches) == ["DESCRIBE", "READ"]
    assert {match.code for match in answer.results[0].matches} == {"NONE"}
    assert answer.token is not None
    assert got(AuthorizeResponse, ask(client, READ, at_least=answer.token)).results == [DENIED]


def main() -> None:
    open_url, closed_url = sys.argv[1:]
    with Client(base_url=closed_url, raise_on_unexpected_status=True) as closed:
        not_ready(closed)
    client = Client(base_url=open_url, raise_on_unexpected_status=True)
    token = created(client)
    decided(client, token)
    operations_told(client)
    explained(client)
    searched(client)
    refusals_told(client)
    deleted(client)
    sys.stdout.write("all right\n")


main()
