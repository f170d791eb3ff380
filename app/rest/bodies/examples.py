"""What the examples of the operations have in common. They stand beside the bodies, for the OpenAPI document.

A test asks them all of a service with examples/acls.json; only ids of ACLs and the epoch of tokens are other ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.core.kafka.bindings import AclBinding

Json = Mapping[str, object]

EPOCH = "0199f0c2-5d1e-7c3a-9a41-3f6f0b8a2c17"
TOKEN = f"{EPOCH}:348"
ADMIN = {"principal": "User:admin", "client_address": "127.0.0.1"}
CHECKOUT = {"principal": "User:svc-checkout", "client_address": "10.40.3.17"}
NO_ERROR: Json = {"error_code": 0, "code": "NONE", "error_message": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One call: parameters of the path by name, the body if the operation takes one, and the body of the 200."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    request: Json | None = None
    reply: Json | str


def acl_example(words: str, acl_id: str | None = None) -> dict[str, object]:
    binding: dict[str, object] = dict(zip(AclBinding.__annotations__, words.split(), strict=True))
    return binding if acl_id is None else {"id": acl_id, **binding, "expires_at": None, "owner": None}
