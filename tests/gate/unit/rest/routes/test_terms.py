"""Ends and owners of ACLs and comments on changes, over HTTP."""

from typing import Any

import pytest

from tests.gate.unit.rest.routes.test_acls import BINDING, create, delete, search
from tests.klamm import ADMIN, InProcess

END = "2099-12-31T18:00:00Z"
NAMED = {"resource_name": "orders"}


async def found(service: InProcess) -> list[tuple[str | None, str | None]]:
    return [(acl["expires_at"], acl["owner"]) for acl in (await search(service, {}))["acls"]]


async def test_an_acl_shows_its_end_in_utc_and_its_owner_wherever_it_is_shown(service: InProcess) -> None:
    wanted = {"expires_at": END, "owner": "équipe 1"}
    (made,) = (await create(service, {**BINDING, **wanted, "expires_at": "2099-12-31T20:00:00+02:00"}))["results"]

    assert await found(service) == [(END, "équipe 1")]
    shown = (await service.client.get(f"/v1/acls/{made['id']}")).json()
    assert shown == {"id": made["id"], **BINDING, **wanted}
    action = {"operation": "READ", "resource_type": "TOPIC", "resource_name": "orders"}
    about = {"principal": "User:alice", "client_address": "10.0.0.1"}
    reply = await service.send("/v1/explain", {"context": ADMIN, "about": about, "actions": [action]})
    (explanation,) = reply.json()["results"]
    assert explanation["acl"] == explanation["matching_acls"][0] == shown
    (deleted,) = (await delete(service, NAMED))["results"]
    assert {**deleted["matches"][0], **shown} == deleted["matches"][0]


async def test_what_is_left_out_stays_and_null_takes_away(service: InProcess) -> None:
    await create(service, {**BINDING, "expires_at": END, "owner": "x"})
    for terms, left in (
        ({}, (END, "x")),
        ({"owner": "y"}, (END, "y")),
        ({"expires_at": None}, (None, "y")),
        ({"owner": None}, (None, None)),
    ):
        (again,) = (await create(service, {**BINDING, **terms}))["results"]
        assert again["created"] is False
        assert await found(service) == [left]
    assert service.authorizer.image.offset == 4


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"owner": ""}, "owner must not be empty"),
        ({"owner": " "}, "owner must not be empty"),
        ({"owner": "x" * 201}, "owner has 201 characters, but may have at most 200"),
        ({"owner": "a\nb"}, "owner contains U+000A"),
        ({"owner": "a\u001b[31mb"}, "owner contains U+001B"),
        ({"expires_at": "2001-01-01T00:00:00Z"}, "`expires_at` must be in the future"),
        ({"expires_at": "0001-01-01T00:00:00+23:00"}, "`expires_at` must be within the years"),
        ({"expires_at": "9999-12-31T23:59:59-12:00"}, "`expires_at` must be within the years"),
        ({"expires_at": "2099-01-01T00:00:00.5Z"}, "expires_at must be a whole second"),
    ],
)
async def test_what_can_not_be_kept_is_refused_and_the_neighbours_are_not(
    service: InProcess, terms: dict[str, Any], told: str
) -> None:
    refused, made = (await create(service, {**BINDING, **terms}, {**BINDING, "resource_name": "p"}))["results"]
    assert (refused["code"], refused["id"], made["created"]) == ("INVALID_REQUEST", None, True)
    assert told in refused["error_message"]


@pytest.mark.parametrize("ends", ["soon", "2099-01-01", "2099-01-01T00:00:00", 4070908800, True, {}])
async def test_a_text_that_is_no_time_with_an_offset_names_its_field(service: InProcess, ends: object) -> None:
    problem = await create(service, {**BINDING, "expires_at": ends}, status=400)
    assert "expires_at" in str(problem["errors"])


@pytest.mark.parametrize("ends", ["2099-12-31T20:00:00+0200", "2099-12-31 20:00:00+02:00", "2099-12-31T20:00:00+02"])
async def test_a_time_that_rfc_3339_does_not_have_is_refused_with_the_one_that_it_has(
    service: InProcess, ends: str
) -> None:
    problem = await create(service, {**BINDING, "expires_at": ends}, status=400)
    assert problem["errors"] == [
        {"pointer": "/bindings/0/expires_at", "detail": "the value is not a time; write 2099-12-31T20:00:00+02:00"}
    ]
    await create(service, {**BINDING, "expires_at": "2099-12-31t18:00:00z"})
    assert await found(service) == [(END, None)]


async def test_200_characters_are_counted_not_bytes(service: InProcess) -> None:
    owner = "\U0001f600" * 200
    await create(service, {**BINDING, "owner": owner})
    assert await found(service) == [(None, owner)]


async def test_a_comment_is_kept_with_the_change(service: InProcess) -> None:
    await create(service, BINDING, comment="x" * 500)
    configs = [{"name": "audit.level", "value": "DEBUG"}]
    assert (await service.send("/v1/configs", {"context": ADMIN, "configs": configs, "comment": "look"})).is_success
    filters = {"context": ADMIN, "filters": [NAMED], "comment": "gone"}
    assert (await service.send("/v1/acls/delete", filters)).is_success
    await create(service, BINDING, comment=None)

    assert [record.comment for record in service.store.tables.records] == ["x" * 500, "look", "gone", None]


@pytest.mark.parametrize(
    ("comment", "told"), [("", "empty"), ("x" * 501, "501 characters"), ("a\u2028b", "U+2028"), ("a\u0085", "U+0085")]
)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/acls", {"bindings": [BINDING]}),
        ("/v1/acls/delete", {"filters": [{}]}),
        ("/v1/configs", {"configs": [{"name": "audit.level", "value": "DEBUG"}]}),
    ],
)
async def test_a_comment_that_can_not_be_kept_refuses_the_whole_call(
    service: InProcess, path: str, body: dict[str, object], comment: str, told: str
) -> None:
    reply = await service.send(path, {"context": ADMIN, **body, "comment": comment})
    assert (reply.status_code, reply.json()["code"]) == (400, "INVALID_REQUEST")
    assert "comment" in reply.text
    assert told in reply.text
    assert service.store.tables.records == []
