"""The same question on every route that decides, and who may be answered while the image can't be decided by."""

from tests.bodies import refusal
from tests.klamm import SUPER_USER, Json, Process, action, context

ALICE = context("User:alice")
ROOT = context(SUPER_USER)
ORDERS = action("orders")
DECISIONS: dict[str, Json] = {
    "/v1/authorize": {"actions": [ORDERS]},
    "/v1/authorized-operations": {"resources": [{"resource_type": "TOPIC", "resource_name": "orders"}]},
    "/v1/list-groups": {"groups": ["group"]},
    "/v1/authorize-by-resource-type": {"operation": "READ", "resource_type": "TOPIC"},
}


def check_only_super_users_pass(service: Process) -> None:
    for path, asked in DECISIONS.items():
        problem = refusal(service.http.post(path, json={"context": ALICE, **asked}), 503, "AUTHORIZER_NOT_READY")
        assert (problem["error_code"], problem["retriable"]) == (-1, True)
    answers = {path: service.post(path, {"context": ROOT, **asked}) for path, asked in DECISIONS.items()}
    assert answers["/v1/authorize"] == {"results": ["ALLOWED"], "token": None}
    assert answers["/v1/authorized-operations"]["results"][0]["authorized_operations"] == 3576
    assert answers["/v1/list-groups"] == {"groups": ["group"], "token": None}
    assert answers["/v1/authorize-by-resource-type"] == {"result": "ALLOWED", "token": None}


def answers(service: Process, principal: str, names: list[str], operation: str = "READ") -> list[str]:
    """Whether this caller may do this on each of the topics."""
    return service.authorize(principal, *[action(name, operation) for name in names])
