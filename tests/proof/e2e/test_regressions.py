"""Published faults that take a real service to show that they are not Klamm's; the rest stand in unit/regressions."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.asking_again import client_of
from tests.bodies import BODIES
from tests.callers import Corp, write_configuration
from tests.klamm import LIMIT_S, SUPER_USER, Process, acl, action, context, over_socket, replica
from tests.planted import hear
from tests.postgres import Postgres
from tests.proof.e2e.outside import Outside
from tests.raw import connected
from tests.surroundings import without_ours


class Guarded(NamedTuple):
    """A service that knows callers, and the token of each."""

    service: Process
    tokens: Mapping[str, str]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("regressions")
    tokens = write_configuration(folder, Corp())
    with over_socket(settings={"KLAMM_DATABASE_URL": postgres.new_store()}, folder=folder) as service:
        yield Guarded(service.ready(), tokens)


def _answer_on(connection: socket.socket) -> bytes:
    got = b""
    while b"}" not in got:
        some = connection.recv(65_536)
        assert some, got
        got += some
    return got


def status_of(guarded: Guarded, authorization: str, principal: str, *, times: int = 1) -> set[int]:
    """What one connection answers that sends the same bytes again and again."""
    body = json.dumps({"context": context(principal), "actions": [action("orders")]}).encode()
    line = "POST /v1/authorize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
    head = f"{line}\r\nAuthorization: {authorization}"
    request = f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    found = set()
    deadline = time.monotonic() + LIMIT_S
    with connected(guarded.service) as connection:
        for _ in range(times):
            connection.sendall(request)
            while b"OVERLOADED" in (got := _answer_on(connection)) and time.monotonic() < deadline:
                # There was no room for it on a busy machine; it is asked again.
                connection.sendall(request)
            found.add(int(got.split(b" ")[1]))
    return found


def test_cve_2026_41131_a_head_that_is_remembered_lets_no_other_in(guarded: Guarded) -> None:
    """The head of a request that was answered is remembered byte for byte, and with it who asked."""
    anyone, orders = guarded.tokens["anyone"], guarded.tokens["orders"]
    for _ in range(3):
        assert status_of(guarded, f"Bearer {anyone}", "User:alice", times=5) == {200}
        assert status_of(guarded, f"Bearer {orders}", "User:alice", times=5) == {403}
        assert status_of(guarded, f"Bearer {orders}", "User:orders-1", times=5) == {200}
        for near in (anyone[:-1], anyone + "x", anyone.swapcase(), orders[:20] + anyone[20:], f"{anyone}\t{anyone}"):
            assert status_of(guarded, f"Bearer {near}", "User:alice") == {401}
        # As long as the right one, so that only these bytes differ.
        assert status_of(guarded, f"Bearer {'x' * len(anyone)}", "User:alice") == {401}
        assert status_of(guarded, f"Bearer {anyone}", SUPER_USER, times=5) == {403}


def test_cve_2026_55866_many_connections_at_once_get_their_own_answers(guarded: Guarded) -> None:
    asked = [
        (name, principal) for name in ("anyone", "orders") for principal in ("User:alice", "User:orders-1", SUPER_USER)
    ]

    def ask(case: tuple[str, str]) -> tuple[tuple[str, str], set[int]]:
        return case, status_of(guarded, f"Bearer {guarded.tokens[case[0]]}", case[1], times=20)

    expected = {case: {200} for case in asked}
    for case in (("anyone", SUPER_USER), ("orders", SUPER_USER), ("orders", "User:alice")):
        expected[case] = {403}
    with ThreadPoolExecutor(8) as pool:
        for case, found in pool.map(ask, asked * 10, timeout=LIMIT_S):
            assert found == expected[case], case


_NO_AUDIENCE = """
[issuers.corp]
issuer = "https://login.example.com/"
jwks = "keys.json"

[callers.a]
role = "decide"
principals = ["User:*"]
issuer = "corp"
subject = "a"
"""
BROKEN = {
    "a super user without a colon": ({"KLAMM_SUPER_USERS": "admin"}, ""),
    "a setting that there is not": ({"KLAMM_SUPER_USER": SUPER_USER}, ""),
    "tokens that there are not": ({}, 'tokens.file = "none"\n[callers.a]\nrole = "decide"\nprincipals = ["User:*"]\n'),
    "an issuer without an audience": ({}, _NO_AUDIENCE),
    "a caller of no role": ({}, '[callers.a]\nprincipals = ["User:*"]\n'),
}


@pytest.mark.parametrize("what", BROKEN)
def test_pr_13151_cve_2026_55689_a_service_that_can_not_authorize_does_not_start(tmp_path: Path, what: str) -> None:
    """A broker went on starting after its authorizer had failed to."""
    environment, configuration = BROKEN[what]
    (tmp_path / "klamm.toml").write_text(configuration)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("klamm")), "serve", "--port", "0", "--data-dir", str(tmp_path / "data")],
        cwd=tmp_path,
        env={**without_ours(), **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    said = done.stdout + done.stderr
    hear(said)
    assert done.returncode not in (0, None)
    assert "serving" not in said
    # It says what to do, not where it broke.
    assert "Traceback" not in said
    assert done.stderr.strip()


SQL = [
    "'); DROP TABLE acl; --",
    '"; DELETE FROM acl_record; --',
    "x' OR '1'='1",
    "$1",
    ":name",
    "%(name)s",
    "\\x27",
    "E'\\\\047'",
    "NULL",
    "{0}",
    "/* */",
    "$$;SELECT pg_sleep(60);$$",
]


def test_cve_2025_46569_cve_2022_23305_names_reach_the_store_as_values(migrated_database_url: str) -> None:
    with replica(migrated_database_url) as service, Outside(migrated_database_url) as outside:
        service.ready()
        service.create(*[acl(name, f"User:{name}") for name in SQL])
        assert sorted(acl["resource_name"] for acl in service.acls()) == sorted(SQL)
        assert len(outside.acls()) == len(SQL)
        for name in SQL:
            assert service.authorize(f"User:{name}", *(action(each) for each in SQL)) == [
                "ALLOWED" if each == name else "DENIED" for each in SQL
            ]
            assert [acl["principal"] for acl in service.acls(principal=f"User:{name}")] == [f"User:{name}"]
        for left, name in enumerate(SQL, 1 - len(SQL)):
            service.delete({"resource_name": name, "pattern_type": "LITERAL"})
            assert len(outside.acls()) == -left
        assert outside.history().last_offset == 2 * len(SQL)


_CONNECTIONS = """SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'klamm %'"""


def test_openfga_pr_2425_a_crowd_of_writers_needs_no_more_connections(migrated_database_url: str) -> None:
    """Calls that each held a connection while they waited for another one waited for ever."""
    with replica(migrated_database_url) as service, Outside(migrated_database_url) as outside:
        service.ready()
        at_rest = sum(len(outside.backends(purpose)) for purpose in ("writer", "feed", "listener"))
        most = 0

        def create(n: int) -> int:
            body = {"context": context(), "bindings": [acl(f"topic-{n}-{m}") for m in range(5)]}
            with client_of(service.url) as http:
                return http.post("/v1/acls", json=body).status_code

        with ThreadPoolExecutor(50) as pool:
            for status in pool.map(create, range(200), timeout=LIMIT_S):
                assert status == 200
                most = max(most, len(outside.rows(_CONNECTIONS)))
        print(f"connections at rest {at_rest}, at most {most}")
        assert 0 < most <= 8
        assert len(outside.acls()) == 1_000


def test_cve_2019_12399_no_route_shows_the_password_of_the_store(migrated_database_url: str) -> None:
    password = urlsplit(migrated_database_url).password
    assert password
    with replica(migrated_database_url) as service:
        service.ready()
        told = []
        for path, body in BODIES.items():
            for content in (json.dumps(body).encode(), b"{", json.dumps({**body, "x": 1}).encode()):
                reply = service.http.post(path, content=content, headers={"content-type": "application/json"})
                told.append(f"{reply.headers} {reply.text}")
        for path in ("/v1/configs", "/metrics", "/readyz?verbose", "/startupz?verbose", "/nowhere", "/v1/acls/count"):
            reply = service.http.get(path)
            told.append(f"{reply.headers} {reply.text}")
        assert len(told) > 20
        assert [text for text in [*told, *service.lines] if password in text] == []
