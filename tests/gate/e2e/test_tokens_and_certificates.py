"""How callers show who they are: JSON Web Tokens and client certificates, to a service with TLS.

Rotation, several workers and issuers at an address are in tests/proof/e2e/test_jwt_callers.py and
test_client_certificates.py.
"""

import ssl
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.asking_again import client_of
from tests.callers import ISSUER
from tests.certificates import Authority, Certified
from tests.gate.e2e.conftest import PLATFORM, SPIFFE, Guarded
from tests.issuers import AUDIENCE, Key
from tests.klamm import LIMIT_S, Json, action, context
from tests.planted import plant

OK, UNAUTHORIZED, FORBIDDEN = httpx.codes.OK, httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN
QUESTION: Json = {"context": context("User:orders"), "actions": [action("orders")]}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def client(guarded: Guarded, shown: Certified | None = None) -> httpx.Client:
    """On connections of its own, with this certificate."""
    trusted = ssl.create_default_context(cafile=guarded.authority.file)
    if shown is not None:
        trusted.load_cert_chain(shown.certificate, shown.key)
    return client_of(guarded.service.url, trusted=trusted)


def post(guarded: Guarded, shown: Certified | None, body: Json = QUESTION, path: str = "/v1/authorize") -> int:
    with client(guarded, shown) as http:
        return http.post(path, json=body).status_code


def is_cut_off(guarded: Guarded, shown: Certified) -> bool:
    """Whether the handshake fails with this certificate."""
    try:
        post(guarded, shown)
    except httpx.TransportError:
        return True
    return False


def test_a_good_token_decides_within_its_callers_patterns(guarded: Guarded) -> None:
    token = guarded.corp.token()
    for principal, status in (("User:alice", OK), ("User:admin", FORBIDDEN)):
        body = {"context": context(principal), "actions": [action("orders")]}
        reply = guarded.service.http.post("/v1/authorize", json=body, headers=bearer(token))
        assert reply.status_code == status, reply.text
    search = {"context": context("User:alice"), "filter": {}}
    assert guarded.service.http.post("/v1/acls/search", json=search, headers=bearer(token)).status_code == FORBIDDEN


def test_a_bad_token_is_refused_and_the_text_does_not_say_why(guarded: Guarded, subtests: pytest.Subtests) -> None:
    corp = guarded.corp
    tokens = {
        "no audience": corp.token(aud=None),
        "another audience": corp.token(aud="other"),
        "another issuer": corp.token(iss="https://other.example/"),
        "an end in the past": corp.token(ends_in_s=-3_600),
        "a start to come": corp.token(nbf=32_503_680_000),
        "no caller": corp.token(sub="nobody"),
        "no subject": corp.token(sub=None),
        "another key of this name": Key("one").token(iss=ISSUER, aud=AUDIENCE, sub="gateway"),
        "another algorithm": Key("one", "RS256").token(iss=ISSUER, aud=AUDIENCE, sub="gateway"),
        "no algorithm": "eyJhbGciOiJub25lIn0.e30.",
        "half a signature": corp.token()[:-8],
        "garbage": "garbage",
        "a very long one": "a" * 9_000,
    }
    nothing = guarded.service.http.post("/v1/authorize", json=QUESTION)
    for what, token in tokens.items():
        with subtests.test(what):
            reply = guarded.service.http.post("/v1/authorize", json=QUESTION, headers=bearer(token))
            assert reply.status_code == nothing.status_code == UNAUTHORIZED
            assert reply.headers["www-authenticate"].startswith("Bearer")
            for member in ("title", "detail", "code", "error_code"):
                assert reply.json()[member] == nothing.json()[member]


def test_no_token_gets_into_any_log(guarded: Guarded) -> None:
    good, bad = guarded.corp.token(), plant(Key("one").token(iss=ISSUER, aud=AUDIENCE, sub="gateway"))
    statuses = [
        guarded.service.http.post("/v1/list-groups", json={"context": context("User:a"), "groups": []}, headers=each)
        for each in (bearer(good), bearer(bad))
    ]
    assert [each.status_code for each in statuses] == [OK, UNAUTHORIZED]
    log = "\n".join(guarded.service.lines)
    for token in (good, bad):
        assert not [part for part in token.split(".")[1:] if part in log]


def test_a_certificate_decides_within_its_callers_patterns(guarded: Guarded) -> None:
    workload = guarded.authority.certify("workload", [SPIFFE, "DNS:other.example"])
    with client(guarded, workload) as http:
        assert [http.post("/v1/authorize", json=QUESTION).json()["results"] for _ in range(3)] == [["DENIED"]] * 3
    for principal in ("User:alice", "User:admin"):
        assert post(guarded, workload, {**QUESTION, "context": context(principal)}) == FORBIDDEN
    search = {"context": context("User:orders"), "filter": {}}
    assert post(guarded, workload, search, "/v1/acls/search") == FORBIDDEN
    operator = guarded.authority.certify("operator", [PLATFORM])
    assert post(guarded, operator, {"context": context(), "filter": {}}, "/v1/acls/search") == OK


def test_no_certificate_and_one_of_nobody_are_refused_alike(guarded: Guarded) -> None:
    nobody = guarded.authority.certify("nobody", ["DNS:nobody.example"], common_name=SPIFFE)
    nameless = guarded.authority.certify("nameless", [])
    both = guarded.authority.certify("both", [SPIFFE, PLATFORM])
    assert [post(guarded, shown) for shown in (None, nobody, nameless, both)] == [UNAUTHORIZED] * 4


def test_a_bad_token_is_not_mended_by_a_good_certificate(guarded: Guarded) -> None:
    workload = guarded.authority.certify("workload", [SPIFFE])
    with client(guarded, workload) as http:
        assert http.post("/v1/authorize", json=QUESTION, headers=bearer("nonsense")).status_code == UNAUTHORIZED


def test_expired_certificates_and_those_of_strangers_end_in_the_handshake(guarded: Guarded, tmp_path: Path) -> None:
    expired = guarded.authority.certify("expired", [SPIFFE], valid_for=timedelta(days=-1))
    stranger = Authority(tmp_path).certify("stranger", [SPIFFE])
    assert is_cut_off(guarded, expired)
    assert is_cut_off(guarded, stranger)


def test_plain_http_is_not_answered(guarded: Guarded) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.post(guarded.service.url.replace("https:", "http:") + "/v1/authorize", json=QUESTION, timeout=LIMIT_S)
