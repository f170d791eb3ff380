"""Published faults of OpenFGA, each shown not to be Klamm's: what is remembered, and who is believed."""

import asyncio
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.core.mutations import CreateAcls
from app.core.token import Token
from app.rest.callers.jwt_tokens import Issuer, JwtVerifier
from app.rest.callers.key_sets import KeySet
from app.rest.callers.roles import TokenRefusedError
from app.rest.callers.token_file import add_token, retire_tokens
from app.settings.callers import IssuerSettings
from tests.callers import CALLERS
from tests.issuers import AUDIENCE, ISSUER, SUBJECT, Key, key_set
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl, in_process
from tests.updates import binding, new

MIB = 1024 * 1024


def group(name: str, operation: str = "DESCRIBE") -> dict[str, str]:
    return {"operation": operation, "resource_type": "GROUP", "resource_name": name}


# what is remembered


async def test_cve_2026_33729_an_entry_with_a_comma_is_not_two_entries(service: InProcess) -> None:
    names = ["a", "b", "a,b", 'a","b', 'a","b', "['a', 'b']", "a|b", "a\x1fb", "", ",", "a,", ",b", "a, b"]
    for lone in names:
        await service.create(acl(lone or "*", f"User:{lone}", "DESCRIBE", resource_type="GROUP"))
        for asked in (list(names), [name for name in names if name != lone], [lone, lone]):
            context = {**ALICE, "principal": f"User:{lone}"}
            reply = await service.send("/v1/list-groups", {"context": context, "groups": asked})
            assert reply.json()["groups"] == [name for name in asked if name == lone or not lone]
            decided = await service.authorize(context, *[group(name) for name in asked])
            assert decided == ["ALLOWED" if name == lone or not lone else "DENIED" for name in asked]


async def test_cve_2026_41131_credentials_that_look_alike_are_not_the_same(replica: InProcess) -> None:
    """What was found out about a token is remembered, by the hash of the whole header."""
    body = {"context": ALICE, "actions": [READ_ORDERS]}
    token = replica.tokens["anyone"]
    inside = token[:20] + ("x" if token[20] != "x" else "y") + token[21:]
    near = [token[:-1], token + "x", token.swapcase(), inside, token + ",", f"{token} {token}"]
    for _ in range(2):
        assert (await replica.send("/v1/authorize", body, "anyone")).status_code == 200
        assert replica.at_once(f"Bearer {token}", body) == ["DENIED"]
        for other in near:
            assert replica.at_once(f"Bearer {other}", body) is None
            reply = await replica.send("/v1/authorize", body, authorization=f"Bearer {other}")
            assert reply.status_code == 401, other
        for scheme in ("Basic", "Bearer:", "Token", "Bearer,"):
            assert replica.at_once(f"{scheme} {token}", body) is None
            reply = await replica.send("/v1/authorize", body, authorization=f"{scheme} {token}")
            assert reply.status_code == 401, scheme
        for_a_super_user = {**body, "context": ADMIN}
        assert (await replica.send("/v1/authorize", for_a_super_user, "anyone")).status_code == 403


async def test_cve_2024_56323_the_same_question_from_elsewhere_is_another_one(service: InProcess) -> None:
    await service.create(acl("orders", host="10.0.0.1"), acl("orders", host="2001:db8::/32"))
    expected = {"10.0.0.1": "ALLOWED", "10.0.0.2": "DENIED", "2001:db8::1": "ALLOWED", "2001:db9::1": "DENIED"}
    for _ in range(3):
        for address, result in expected.items():
            context = {**ALICE, "client_address": address}
            assert await service.authorize(context, READ_ORDERS) == [result]
            assert await service.authorize({**context, "principal": "User:bob"}, READ_ORDERS) == ["DENIED"]


async def test_cve_2025_46331_what_was_cut_short_leaves_no_answer_behind(service: InProcess) -> None:
    """A result was kept although the evaluation had been cut off."""
    ahead = str(Token(service.store.epoch, service.store.tables.last_offset + 1))
    body = {"context": ALICE, "actions": [READ_ORDERS]}
    options = service.authorizer._options
    service.give_up_soon()
    for _ in range(2):
        cut = await service.send("/v1/authorize", {**body, "at_least": ahead})
        assert (cut.status_code, cut.json()["code"]) == (503, "OFFSET_NOT_AVAILABLE")
    service.authorizer._options = options
    assert await service.authorize(ALICE, READ_ORDERS) == ["DENIED"]
    await service.create(acl("orders"))
    assert await service.authorize(ALICE, READ_ORDERS, at_least=ahead) == ["ALLOWED"]
    assert await service.authorize(ALICE, READ_ORDERS) == ["ALLOWED"]


async def test_cve_2025_46331_a_refusal_before_the_load_is_forgotten_after_it() -> None:
    async with in_process(reachable=False) as replica:
        replica.store.commit([CreateAcls(new([binding(acl("orders"))]), "User:test")])
        body = {"context": ALICE, "actions": [READ_ORDERS]}
        assert (await replica.send("/v1/authorize", body)).status_code == 503
        replica.store.unreachable = False
        await replica.authorizer.readiness.wait_until_ready(["CLIENT"], 10)
        assert await replica.authorize(ALICE, READ_ORDERS) == ["ALLOWED"]


async def test_openfga_pr_3155_no_answer_survives_the_write_that_it_met(service: InProcess) -> None:
    """An entry that was stored while a write went on survived its invalidation."""
    create = {"context": ADMIN, "bindings": [_json_of("orders")]}
    delete = {"context": ADMIN, "filters": [{"resource_name": "orders"}]}
    for _ in range(20):
        for path, update, expected in (("/v1/acls", create, "ALLOWED"), ("/v1/acls/delete", delete, "DENIED")):
            meanwhile = [asyncio.create_task(service.authorize(ALICE, READ_ORDERS)) for _ in range(5)]
            writing = asyncio.create_task(service.send(path, update))
            meanwhile += [asyncio.create_task(service.authorize(ALICE, READ_ORDERS)) for _ in range(5)]
            token = (await writing).json()["token"]
            assert await service.authorize(ALICE, READ_ORDERS) == [expected]
            assert await service.authorize(ALICE, READ_ORDERS, at_least=token) == [expected]
            await asyncio.gather(*meanwhile)
            assert await service.authorize(ALICE, READ_ORDERS) == [expected]


async def test_openfga_pr_3155_no_caller_survives_the_loss_of_its_token(replica: InProcess, tmp_path: Path) -> None:
    body = {"context": ALICE, "actions": [READ_ORDERS]}
    old = replica.tokens["anyone"]
    new = add_token(tmp_path / "klamm.tokens", "anyone", CALLERS)
    assert (await replica.send("/v1/authorize", body, "anyone")).status_code == 200
    assert replica.at_once(f"Bearer {old}", body) == ["DENIED"]
    retire_tokens(tmp_path / "klamm.tokens", "anyone", CALLERS)
    # A token that nobody knows makes the file be looked at.
    assert (await replica.send("/v1/authorize", body, authorization="Bearer klamm_x")).status_code == 401
    for token, status in ((old, 401), (new, 200), (old, 401)):
        reply = await replica.send("/v1/authorize", body, authorization=f"Bearer {token}")
        assert reply.status_code == status
        assert replica.at_once(f"Bearer {token}", body) == (["DENIED"] if status == 200 else None)


# who is believed


def test_cve_2026_55689_an_issuer_without_an_audience_is_no_issuer(subtests: pytest.Subtests) -> None:
    for missing in ["issuer", "audience", "jwks"]:
        for value in [None, ""]:
            with subtests.test(missing=missing, value=value):
                table = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": "keys.json"}
                IssuerSettings.model_validate(table)
                spoiled = (
                    {**table, missing: value} if value is not None else {k: v for k, v in table.items() if k != missing}
                )
                with pytest.raises(ValidationError):
                    IssuerSettings.model_validate(spoiled)


async def test_cve_2026_55689_a_token_for_somebody_else_is_refused(tmp_path: Path) -> None:
    key = Key("one")
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(key))
    keys = KeySet(str(path))
    await keys.refresh()

    def issuer(audience: str) -> Issuer:
        return Issuer("corp", ISSUER, audience, frozenset({"ES256"}), 0, keys)

    with pytest.raises(ValueError, match="audience"):
        issuer("")
    verifier = JwtVerifier([issuer(AUDIENCE)])
    assert (await verifier.verify(key.token())).subject == SUBJECT
    assert (await verifier.verify(key.token(aud=["other", AUDIENCE]))).subject == SUBJECT
    for audience in (None, "", "other", [], ["other"], AUDIENCE.upper(), f"{AUDIENCE}/", [f"{AUDIENCE},other"]):
        with pytest.raises(TokenRefusedError):
            await verifier.verify(key.token(aud=audience))


CONSOLES = (
    *("/index.html", "/console", "/playground", "/ui", "/admin", "/docs", "/redoc", "/openapi.json", "/swagger"),
    *("/static/app.js", "/config", "/v1/config", "/env", "/debug", "/debug/pprof", "/.env", "/klamm.toml", "/tokens"),
)


@pytest.mark.parametrize("caller", [None, "root"])
async def test_cve_2026_40293_ghsa_68m9_there_is_no_console_and_no_page(replica: InProcess, caller: str | None) -> None:
    there_are = ("/livez", "/readyz?verbose", "/startupz", "/v1/configs", "/v1/acls/count", "/metrics")
    for path in (*CONSOLES, *there_are):
        reply = await replica.send(path, caller=caller, method="GET", accept="text/html")
        assert (reply.status_code == 404) is (path in CONSOLES)
        assert "html" not in reply.headers["content-type"]
        assert not [token for token in replica.tokens.values() if token in reply.text]
    first = await replica.send("/", caller=caller, method="GET", accept="text/html")
    assert first.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert not [each for each in ("<script", "<form", "klamm_", '"/docs"') if each in first.text]
    assert not [token for token in replica.tokens.values() if token in first.text]


def _json_of(name: str) -> dict[str, str]:
    return {
        "resource_type": "TOPIC",
        "resource_name": name,
        "principal": "User:alice",
        "operation": "READ",
        "permission_type": "ALLOW",
    }
