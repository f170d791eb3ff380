"""What an old client makes of a newer service's answers: future.py URL.

A verdict that it does not know is a ValueError to this client: no answer, and so no ALLOWED. All else it takes.
"""

import sys

from klamm_client import Client
from klamm_client.api.acls import acls, create_acls
from klamm_client.api.decisions import authorize, authorize_by_resource_type, authorized_operations, explain
from klamm_client.models import (
    AclBindingFilter,
    AclsRequest,
    AclsResponse,
    Action,
    AuthorizableRequestContext,
    AuthorizeByResourceTypeRequest,
    AuthorizedOperationsRequest,
    AuthorizedOperationsResponse,
    AuthorizeRequest,
    CreateAclsRequest,
    ExplainRequest,
    Problem,
    ResourceReference,
)

client = Client(base_url=sys.argv[1])
alice = AuthorizableRequestContext("User:alice", "10.1.2.3")
action = Action("READ", "TOPIC", "orders")
lines = []
try:
    lines.append(f"allowed: {authorize.sync(client=client, body=AuthorizeRequest(alice, [action, action]))}")
except ValueError:
    lines.append("allowed: refused")
anywhere = AuthorizeByResourceTypeRequest(alice, "READ", "TOPIC")
try:
    lines.append(f"allowed anywhere: {authorize_by_resource_type.sync(client=client, body=anywhere)}")
except ValueError:
    lines.append("allowed anywhere: refused")

resources = AuthorizedOperationsRequest(alice, [ResourceReference("TOPIC", "orders")])
told = authorized_operations.sync(client=client, body=resources)
assert isinstance(told, AuthorizedOperationsResponse)
(first,) = told.results
lines.append(f"operations: {first.authorized_operations} {' '.join(first.operations)}")

puzzle = ExplainRequest(alice, [action])
try:
    lines.append(f"explained: {explain.sync(client=client, body=puzzle)}")
except ValueError:
    lines.append("explained: refused")

listed = acls.sync(client=client, body=AclsRequest(alice, AclBindingFilter()))
assert isinstance(listed, AclsResponse)
(acl,) = listed.acls
lines.append(f"acl: {acl.resource_type} {acl.pattern_type} {acl.operation} {acl.permission_type}")

problem = create_acls.sync(client=client, body=CreateAclsRequest(alice, []))
assert isinstance(problem, Problem)
lines.append(f"problem: {problem.code} {str(problem.retriable).lower()}")
sys.stdout.write("\n".join(lines) + "\n")
