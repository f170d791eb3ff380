"""A line of the decision log; tests name its columns here alone."""

from collections.abc import Mapping
from typing import Any

_LINE: Mapping[str, Any] = {
    "time": "2026-11-22T10:00:00Z",
    "epoch": "5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11",
    "offset": 1,
    "principal": "User:alice",
    "host": "10.1.2.3",
    "listener_name": None,
    "security_protocol": None,
    "request_type": 1,
    "request_version": None,
    "client_id": None,
    "correlation_id": None,
    "caller": None,
    "operation": "READ",
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "result": "DENIED",
    "rule": "DefaultDeny",
    "acl_id": None,
    "sampled": 1.0,
}


def decision_line(**said: object) -> dict[str, Any]:
    """What is said, in a line of a request whose context named no groups, and that no ACL matched."""
    assert said.keys() <= _LINE.keys()
    return {**_LINE, **said}
