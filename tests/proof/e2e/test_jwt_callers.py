"""Callers with JSON Web Tokens at a real `klamm serve`: let in, refused, and never failed while keys rotate."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from app.rest.callers.certificates import server_context
from tests.asking_again import client_of
from tests.certificates import Authority
from tests.issuers import Key, issuer_table, key_set
from tests.key_server import KeyServer
from tests.klamm import Json, Process, acl, action, context, over_socket, wait_until
from tests.postgres import Postgres
from tests.proof.e2e.repeating import Repeating

QUESTION: Json = {"context": context("User:orders"), "actions": [action("orders")]}
CLUSTER = "https://kubernetes.default.svc.cluster.local"
DECIDER, ADMIN_SUBJECT = "orders-service", "platform"
POD = "system:serviceaccount:orders:api"

TABLES = """
super.users = "User:admin"

[callers.orders]
role = "decide"
principals = ["User:orders*"]
issuer = "main"
subject = "orders-service"

[callers.platform]
role = "admin"
principal = "User:admin"
issuer = "main"
subject = "platform"
"""
CLUSTER_MORE = """
ca_file = "ca.pem"
bearer_file = "token"

[callers.sidecar]
role = "decide"
principals = ["User:orders*"]
issuer = "cluster"
service_account = "orders/api"
"""

OLD = Key("old")

# tests/gate/e2e/test_tokens_and_certificates.py asks the same where the keys are in a file.
_ANY = pytest.mark.parametrize("issuing", ["at_url"], indirect=True)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def as_admin(key: Key) -> dict[str, str]:
    return bearer(key.token(sub=ADMIN_SUBJECT))


def status(service: Process, token: str, body: Json = QUESTION) -> int:
    return service.http.post("/v1/authorize", json=body, headers=bearer(token)).status_code


class Rotating(Repeating):
    """Threads that ask with the newest token all the time; `faults` holds every answer that was not ALLOWED."""

    def __init__(self, url: str, token: str, threads: int = 4) -> None:
        self.token = token
        self.answers = 0
        self._asked_by: Counter[int] = Counter()
        self.faults: list[str] = []
        self._url = url
        super().__init__(*[self._ask] * threads)

    def _ask(self) -> None:
        with client_of(self._url) as http:
            while not self.done.is_set():
                reply = http.post("/v1/authorize", json=QUESTION, headers=bearer(self.token))
                if reply.status_code != httpx.codes.OK or reply.json()["results"] != ["ALLOWED"]:
                    self.faults.append(f"{reply.status_code} {reply.text}")
                self.answers += 1
                self._asked_by[threading.get_ident()] += 1
                time.sleep(0.01)

    def some_more(self) -> None:
        """Wait until each thread has asked again, whatever the token then was."""
        before, answers = self._asked_by.copy(), self.answers
        # Of two answers the second is to a question that was asked since.
        wait_until(
            lambda: self.answers > answers + 100 and all(self._asked_by[each] >= before[each] + 2 for each in before),
            "more answers",
        )


class Issuing:
    """A service whose issuer publishes by `publish`; its ACLs let User:orders read.

    An issuer that signs with a new key at once, instead of some minutes later, must rest so long between two of them.
    """

    def __init__(self, service: Process, publish: Callable[[bytes], None], rest_s: float) -> None:
        self.service = service
        self.publish = publish
        self.rest_s = rest_s


def configured(folder: Path, database_url: str, jwks: str, more: str = "") -> Process:
    (folder / "klamm.toml").write_text(TABLES + issuer_table("main", jwks) + more)
    variables = {"KLAMM_SUPER_USERS": "User:admin", "KLAMM_DATABASE_URL": database_url}
    service = over_socket(settings=variables, folder=folder).ready()
    body = {"context": context("User:admin"), "bindings": [acl("orders", "User:orders")]}
    answer = service.http.post("/v1/acls", json=body, headers=as_admin(OLD))
    assert answer.status_code == httpx.codes.OK, answer.text
    return service


@pytest.fixture(scope="module")
def at_url(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Issuing]:
    folder = tmp_path_factory.mktemp("url")
    with KeyServer(key_set(OLD)) as server, configured(folder, postgres.new_store(), server.url) as service:
        yield Issuing(service, lambda document: setattr(server, "body", document), rest_s=10.5)


@pytest.fixture(scope="module")
def in_file(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Issuing]:
    folder = tmp_path_factory.mktemp("file")
    path = folder / "keys.json"
    path.write_bytes(key_set(OLD))

    def publish(document: bytes) -> None:
        beside = path.with_name("keys.json.new")
        beside.write_bytes(document)
        beside.replace(path)

    with configured(folder, postgres.new_store(), "keys.json") as service:
        yield Issuing(service, publish, rest_s=0.0)


@pytest.fixture(params=["at_url", "in_file"])
def issuing(request: pytest.FixtureRequest) -> Issuing:
    """Each test begins with the old key only."""
    found: Issuing = request.getfixturevalue(request.param)
    found.publish(key_set(OLD))
    wait_until(lambda: status(found.service, OLD.token()) == httpx.codes.OK, "the old key again")
    return found


@_ANY
def test_a_good_token_decides_within_its_callers_patterns(issuing: Issuing) -> None:
    token = OLD.token()
    assert status(issuing.service, token) == httpx.codes.OK
    for principal in ("User:alice", "User:admin"):
        body = {**QUESTION, "context": context(principal)}
        assert status(issuing.service, token, body) == httpx.codes.FORBIDDEN


@pytest.mark.parametrize(
    "token",
    [
        OLD.token(aud=None),
        OLD.token(aud="other"),
        OLD.token(iss="https://other.example/"),
        OLD.token(exp=int(time.time()) - 3600),
        OLD.token(nbf=int(time.time()) + 3600),
        OLD.token(sub="nobody"),
        OLD.token(sub=None),
        Key("old").token(),
        Key("old", "RS256").token(),
        "eyJhbGciOiJub25lIn0.e30.",
        OLD.token()[:-8],
        "garbage",
        "a" * 9_000,
    ],
)
@_ANY
def test_a_bad_token_is_refused_and_the_text_does_not_say_why(issuing: Issuing, token: str) -> None:
    answer = issuing.service.http.post("/v1/authorize", json=QUESTION, headers=bearer(token))
    nothing = issuing.service.http.post("/v1/authorize", json=QUESTION)
    assert answer.status_code == nothing.status_code == httpx.codes.UNAUTHORIZED
    assert answer.headers["www-authenticate"].startswith("Bearer")
    for member in ("title", "detail", "code", "error_code"):
        assert answer.json()[member] == nothing.json()[member]


def test_rotation_fails_no_request(issuing: Issuing) -> None:
    """Publish the new key, sign with it at once, and take the old one away when nobody signs with it any more."""
    key = OLD
    with Rotating(issuing.service.url, key.token()) as asking:
        for number in range(2):
            asking.some_more()
            time.sleep(issuing.rest_s)
            new = Key(f"new-{number}")
            issuing.publish(key_set(key, new))
            asking.token = new.token()
            asking.some_more()
            issuing.publish(key_set(new))
            asking.some_more()
            key = new
    assert asking.faults == []
    assert asking.answers > 500


def test_a_key_that_was_taken_away_is_worth_nothing_soon_after(issuing: Issuing) -> None:
    token, new = OLD.token(), Key("successor")
    assert status(issuing.service, token) == httpx.codes.OK
    issuing.publish(key_set(new))
    # A file is followed by itself; a URL every five minutes, or when a token names a key that is not known yet.
    wait_until(lambda: status(issuing.service, new.token()) == httpx.codes.OK, "the new key")
    wait_until(lambda: status(issuing.service, token) == httpx.codes.UNAUTHORIZED, "the old key is worth nothing")


def test_keys_that_can_not_be_read_any_more_stay_in_use(issuing: Issuing) -> None:
    lines_before = len(issuing.service.lines)
    issuing.publish(b"<html>")
    said = "key_set_not_refreshed"

    def was_looked_at() -> bool:
        assert status(issuing.service, Key("unknown").token()) == httpx.codes.UNAUTHORIZED
        return any(said in line for line in issuing.service.lines[lines_before:])

    wait_until(was_looked_at, said)
    assert status(issuing.service, OLD.token()) == httpx.codes.OK


def test_a_service_account_of_the_cluster_is_let_in_by_its_projected_token(
    tmp_path: Path, migrated_database_url: str
) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "ca.pem").write_bytes(authority.file.read_bytes())
    (tmp_path / "token").write_text("the-token-of-klamms-own-pod\n")
    (tmp_path / "keys.json").write_bytes(key_set(OLD))
    mine = authority.certify("server")
    tls = server_context(mine.certificate, mine.key)
    with KeyServer(key_set(OLD), tls) as server:
        more = issuer_table("cluster", server.url, issuer=CLUSTER) + CLUSTER_MORE.lstrip()
        with configured(tmp_path, migrated_database_url, "keys.json", more) as service:
            assert status(service, OLD.token(iss=CLUSTER, aud=["klamm"], sub=POD)) == httpx.codes.OK
            for claims in ({"sub": POD + "2"}, {"sub": POD, "aud": "https://kubernetes.default.svc"}):
                assert status(service, OLD.token(**{"iss": CLUSTER, **claims})) == httpx.codes.UNAUTHORIZED
        assert {each["authorization"] for each in server.seen} == {"Bearer the-token-of-klamms-own-pod"}


@_ANY
def test_no_token_gets_into_any_log(issuing: Issuing) -> None:
    good, bad = OLD.token(), Key("old").token()
    assert status(issuing.service, good) == httpx.codes.OK
    assert status(issuing.service, bad) == httpx.codes.UNAUTHORIZED
    log = "\n".join(issuing.service.lines)
    for token in (good, bad):
        assert not [part for part in token.split(".")[1:] if part in log]
