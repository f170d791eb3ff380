"""Requests of the bench, with every field that audit can ask for."""

import json
from collections.abc import Sequence

from app.core.kafka.codes import AclOperation
from tests.bench.processes import ADMIN
from tests.bench.workload import Question

AUTHORIZE = "/v1/authorize"


def context(principal: str = ADMIN, address: str = "10.1.2.3") -> dict[str, object]:
    """Who asks, in full."""
    return {
        "principal": principal,
        "client_address": address,
        "listener_name": "CLIENT",
        "security_protocol": "SASL_SSL",
        "request_type": 3,
        "request_version": 13,
        "client_id": "rdkafka",
        "correlation_id": 77,
    }


def authorize(questions: Sequence[Question], at_least: str | None = None) -> bytes:
    """One request of one caller, an action a question."""
    first = questions[0]
    actions = [
        {
            "operation": AclOperation(each.operation).name,
            "resource_type": "TOPIC",
            "resource_name": each.resource_name,
            "pattern_type": "LITERAL",
            "resource_reference_count": 1,
            "log_if_allowed": True,
            "log_if_denied": True,
        }
        for each in questions
    ]
    body: dict[str, object] = {"context": context(first.principal, first.address), "actions": actions}
    if at_least is not None:
        body["at_least"] = at_least
    return json.dumps(body).encode()


def create(names: Sequence[str], principal: str) -> bytes:
    """A createAcls request of the super user: this principal may read these topics."""
    bindings = [
        {
            "resource_type": "TOPIC",
            "resource_name": name,
            "pattern_type": "LITERAL",
            "principal": principal,
            "host": "*",
            "operation": "READ",
            "permission_type": "ALLOW",
        }
        for name in names
    ]
    return json.dumps({"context": context(), "bindings": bindings}).encode()


def asked(**question: object) -> bytes:
    """The first page of whoCan or whatCan."""
    return json.dumps({"context": context(), **question}).encode()


def search(acl_filter: dict[str, str]) -> bytes:
    """The first page of acls(filter)."""
    return json.dumps({"context": context(), "filter": acl_filter}).encode()
