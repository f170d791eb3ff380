"""An example of each operation for the OpenAPI document: what is sent, and what a service with examples/acls.json says.

A test asks them all of such a service. Only the ids of ACLs and the epoch of tokens are other ones each time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from app import __version__
from app.core.kafka.bindings import AclBinding

Json = Mapping[str, object]

_EPOCH = "0199f0c2-5d1e-7c3a-9a41-3f6f0b8a2c17"
_TOKEN = f"{_EPOCH}:348"
_ADMIN = {"principal": "User:admin", "client_address": "127.0.0.1"}
_CHECKOUT = {"principal": "User:svc-checkout", "client_address": "10.40.3.17"}
_NO_ERROR: Json = {"error_code": 0, "code": "NONE", "error_message": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One call: parameters of the path by name, the body if the operation takes one, and the body of the 200."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    request: Json | None = None
    reply: Json | str


def _acl(words: str, acl_id: str | None = None) -> dict[str, object]:
    """The fields of an ACL, as replies have them."""
    binding = dict(zip(AclBinding.__annotations__, words.split(), strict=True))
    return {**({} if acl_id is None else {"id": acl_id}), **binding}


_RESULTS = [
    _acl(
        "TOPIC payments.results.v3 LITERAL User:svc-checkout * READ ALLOW",
        "5b0c7a52-7c0e-4f8b-8d63-6f2f6d0c9a11",
    ),
    _acl(
        "TOPIC payments.results.v3 LITERAL User:svc-fraud-features * READ ALLOW",
        "c1d7e9a4-02f5-4b6e-9a3f-18a4b1c5d722",
    ),
]
_EXPLANATION: Json = {
    "result": "DENIED",
    "rule": "DefaultDeny",
    "acl": None,
    "matching_acls": [],
    "matching_acl_count": 0,
    "near_misses": [
        {
            "acl": _acl(
                "TRANSACTIONAL_ID payments- PREFIXED User:svc-payments * WRITE ALLOW",
                "7d9b1f60-3a55-4c1d-b0a2-9f0f7c2e6d33",
            ),
            "missed": ["principal"],
            "detail": "would match if the principal were `User:svc-payments`",
        },
        {
            "acl": _acl(
                "TRANSACTIONAL_ID checkout- PREFIXED User:svc-checkout * WRITE ALLOW",
                "e2a6c8d0-91b7-4e0a-8c54-2b7d5f1a3c44",
            ),
            "missed": ["resource"],
            "detail": "would match if the resource's name began with `checkout-`",
        },
    ],
    "smallest_acl": _acl("TRANSACTIONAL_ID payments-7 LITERAL User:svc-checkout 10.40.3.17 WRITE ALLOW"),
    "denying_acls": [],
    "denying_acl_count": 0,
    "acl_needed_besides": None,
    "note": None,
}
_DECISIONS = {
    "authorize": Example(
        request={
            "context": _CHECKOUT,
            "actions": [
                {"operation": "WRITE", "resource_type": "TOPIC", "resource_name": "checkout.completed.v1"},
                {"operation": "READ", "resource_type": "TOPIC", "resource_name": "payments.card-tokens.v1"},
            ],
        },
        reply={"results": ["ALLOWED", "DENIED"], "token": _TOKEN},
    ),
    "authorizedOperations": Example(
        request={
            "context": _CHECKOUT,
            "resources": [
                {"resource_type": "TOPIC", "resource_name": "checkout.completed.v1"},
                {"resource_type": "TOPIC", "resource_name": "hr.salaries.v1"},
            ],
        },
        reply={
            "results": [
                {
                    "resource_type": "TOPIC",
                    "resource_name": "checkout.completed.v1",
                    "error_code": 0,
                    "code": "NONE",
                    "authorized_operations": 280,
                    "operations": ["READ", "WRITE", "DESCRIBE"],
                },
                {
                    "resource_type": "TOPIC",
                    "resource_name": "hr.salaries.v1",
                    "error_code": 29,
                    "code": "TOPIC_AUTHORIZATION_FAILED",
                    "authorized_operations": -2147483648,
                    "operations": [],
                },
            ],
            "token": _TOKEN,
        },
    ),
    "authorizeByResourceType": Example(
        request={"context": _CHECKOUT, "operation": "WRITE", "resource_type": "TRANSACTIONAL_ID"},
        reply={"result": "ALLOWED", "token": _TOKEN},
    ),
    "listGroups": Example(
        request={
            "context": {"principal": "User:svc-refunds", "client_address": "10.40.3.18"},
            "groups": ["refunds", "psp-adapter"],
        },
        reply={"groups": ["refunds"], "token": _TOKEN},
    ),
    "explain": Example(
        request={
            "context": _ADMIN,
            "about": _CHECKOUT,
            "actions": [{"operation": "WRITE", "resource_type": "TRANSACTIONAL_ID", "resource_name": "payments-7"}],
        },
        reply={"results": [_EXPLANATION], "token": _TOKEN},
    ),
}
_ACLS = {
    "createAcls": Example(
        request={
            "context": _ADMIN,
            "bindings": [
                {
                    "resource_type": "TOPIC",
                    "resource_name": "orders.",
                    "pattern_type": "PREFIXED",
                    "principal": "User:alice",
                    "host": "10.0.0.0/8",
                    "operation": "READ",
                    "permission_type": "ALLOW",
                },
                {
                    "resource_type": "GROUP",
                    "resource_name": "reports",
                    "principal": "User:alice",
                    "operation": "READ",
                    "permission_type": "ALLOW",
                },
            ],
        },
        reply={
            "results": [
                {**_NO_ERROR, "id": "4f3e2d1c-6b7a-4859-9c0d-1e2f3a4b5c55", "created": True},
                {**_NO_ERROR, "id": "98a7b6c5-d4e3-4f21-8a9b-0c1d2e3f4a66", "created": True},
            ],
            "token": f"{_EPOCH}:350",
        },
    ),
    "deleteAcls": Example(
        request={
            "context": _ADMIN,
            "filters": [{"principal": "User:former-employee", "resource_type": "CLUSTER"}],
        },
        reply={
            "results": [
                {
                    **_NO_ERROR,
                    "matches": [
                        {
                            **_NO_ERROR,
                            **_acl(
                                "CLUSTER kafka-cluster LITERAL User:former-employee * ALL DENY",
                                "b8c9d0e1-2f3a-4b5c-8d6e-7f8091a2b377",
                            ),
                        }
                    ],
                }
            ],
            "token": f"{_EPOCH}:349",
        },
    ),
    "acls": Example(
        request={
            "context": _ADMIN,
            "filter": {"resource_type": "TOPIC", "resource_name": "payments.results.v3", "operation": "READ"},
            "limit": 2,
        },
        reply={
            "acls": _RESULTS,
            "next_cursor": "WzIsInBheW1lbnRzLnJlc3VsdHMudjMiLDMsIlVzZXI6c3ZjLWZyYXVkLWZlYXR1cmVzIiwiKiIsMywzXQ",
            "token": _TOKEN,
        },
    ),
    "aclCount": Example(reply={"acl_count": 348}),
    "getAcl": Example(parameters={"id": str(_RESULTS[0]["id"])}, reply=_RESULTS[0]),
}
_SERVICE = {
    "start": Example(
        request={
            "broker_id": 1,
            "endpoints": [
                {
                    "listener_name": "EXTERNAL",
                    "security_protocol": "SASL_SSL",
                    "host": "broker-1.internal",
                    "port": 9093,
                }
            ],
            "inter_broker_listener_name": "EXTERNAL",
        },
        reply={
            "cluster_id": "Ht3x4cWmT0yU1o7JxkQ2Vg",
            "listeners": [{"listener_name": "EXTERNAL", "ready": True}],
        },
    ),
    "describeConfigs": Example(
        reply={
            "configs": [
                {"name": "super.users", "value": "User:admin", "source": "STARTUP"},
                {"name": "allow.everyone.if.no.acl.found", "value": "false", "source": "STARTUP"},
                {"name": "early.start.listeners", "value": "", "source": "STARTUP"},
                {"name": "max.staleness.ms", "value": "", "source": "STARTUP"},
                {"name": "audit.level", "value": "INFO", "source": "STARTUP"},
            ],
            "token": _TOKEN,
        },
    ),
    "alterConfigs": Example(
        request={"context": _ADMIN, "configs": [{"name": "audit.level", "value": "DEBUG"}]},
        reply={"results": [_NO_ERROR], "token": f"{_EPOCH}:349"},
    ),
}
_PROBES = {
    "livez": Example(reply="ok"),
    "readyz": Example(reply="ok"),
    "readyzListener": Example(parameters={"listener_name": "EXTERNAL"}, reply="ok"),
    "startupz": Example(reply="ok"),
    "metrics": Example(
        reply="# HELP klamm_build_info The version that runs.\n"
        "# TYPE klamm_build_info gauge\n"
        f'klamm_build_info{{version="{__version__}"}} 1.0\n'
        "# HELP klamm_acl_count ACLs in memory; -1 until the first load is complete.\n"
        "# TYPE klamm_acl_count gauge\n"
        "klamm_acl_count 348.0\n",
    ),
}
EXAMPLES: Mapping[str, Example] = MappingProxyType({**_DECISIONS, **_ACLS, **_SERVICE, **_PROBES})
"""By operationId."""
