"""Replies that are written in pieces have the form that is documented."""

import json

import msgspec

from app.rest.bodies import acls as bodies
from tests.klamm import ADMIN, InProcess

BINDING = {"resource_type": "TOPIC", "resource_name": "t", "principal": "User:a", "operation": "READ"}


async def test_replies_have_the_documented_form(service: InProcess) -> None:
    asked = [{**BINDING, "permission_type": "ALLOW", "resource_name": f"t{at}"} for at in range(300)]
    refused = {**BINDING, "permission_type": "ALLOW", "resource_name": ""}
    created = await service.client.post("/v1/acls", json={"context": ADMIN, "bindings": [*asked, refused]})
    found = await service.client.post("/v1/acls/search", json={"context": ADMIN, "filter": {}, "limit": 1_000})
    deleted = await service.client.post(
        "/v1/acls/delete",
        json={"context": ADMIN, "filters": [{"resource_type": "TOPIC"}, {"operation": "NONSENSE"}]},
    )
    for answer, struct in (
        (created, bodies.CreateAclsResponse),
        (found, bodies.AclsResponse),
        (deleted, bodies.DeleteAclsResponse),
    ):
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        # Nothing more, nothing less, in the documented order: those of ACLs that were deleted begin with the outcome.
        documented = msgspec.json.encode(msgspec.json.decode(answer.content, type=struct))
        assert json.loads(answer.content) == json.loads(documented)
        if answer is not deleted:
            assert answer.content == documented
    assert len(created.json()["results"]) == 301
    assert len(deleted.json()["results"][0]["matches"]) == 300
