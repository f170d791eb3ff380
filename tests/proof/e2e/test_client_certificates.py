"""`klamm serve` over TLS: callers with client certificates, and certificates that change while it serves."""

import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.certificates import Authority, Certified
from tests.klamm import LIMIT_S, Json, acl, action, context, over_socket, wait_until
from tests.planted import hear
from tests.postgres import Postgres
from tests.surroundings import without_ours

SPIFFE = "URI:spiffe://cluster.example/ns/orders/sa/api"
QUESTION: Json = {"context": context("User:orders"), "actions": [action("orders")]}
OK, UNAUTHORIZED, FORBIDDEN = httpx.codes.OK, httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN

TOML = f"""
tls.certificate = "server.crt"
tls.key = "server.key"
tls.client.ca = "clients.pem"

[callers.orders]
role = "decide"
principals = ["User:orders*"]
certificate = "{SPIFFE}"

[callers.platform]
role = "admin"
principal = "User:admin"
certificate = "DNS:platform.example"
"""


class World:
    """A service with TLS, whose authority signs certificates of clients too."""

    def __init__(self, folder: Path, workers: int, database_url: str) -> None:
        self.folder = folder
        self.workers = workers
        self.authority = Authority(folder)
        self.strangers = Authority(folder / "strangers")
        self.trust(self.authority)
        self.authority.certify("server")
        (folder / "klamm.toml").write_text(TOML)
        variables = {"KLAMM_SUPER_USERS": "User:admin", "KLAMM_DATABASE_URL": database_url}
        self.service = over_socket("--workers", str(workers), settings=variables, folder=folder)
        self.service.http.close()
        self.service.http = self.client()
        self.service.ready()
        self.orders = self.authority.certify("orders", [SPIFFE, "DNS:other.example"])
        self.platform = self.authority.certify("platform", ["DNS:platform.example"])
        body = {"context": context("User:admin"), "bindings": [acl("orders", "User:orders")]}
        assert self.post(self.platform, "/v1/acls", body).status_code == OK

    def trust(self, authority: Authority) -> None:
        """Believe this authority's client certificates from now on."""
        beside = self.folder / "clients.pem.new"
        beside.write_bytes(authority.file.read_bytes())
        beside.replace(self.folder / "clients.pem")

    @contextmanager
    def reloaded_everywhere(self) -> Iterator[None]:
        """What the block changes, every worker has taken once it has ended; each looks for itself."""
        before = self._reloads()
        yield
        wait_until(lambda: self._reloads() == {worker: count + 1 for worker, count in before.items()}, "all reload")

    def _reloads(self) -> dict[str, int]:
        said = [line for line in self.service.lines if "certificate_reloaded" in line]
        numbers = [""] if self.workers == 1 else [f"worker={number}" for number in range(1, self.workers + 1)]
        return {number: sum(number in line for line in said) for number in numbers}

    def client(self, shown: Certified | None = None) -> httpx.Client:
        trust = ssl.create_default_context(cafile=self.authority.file)
        if shown is not None:
            trust.load_cert_chain(shown.certificate, shown.key)
        return httpx.Client(base_url=self.service.url, timeout=LIMIT_S, verify=trust)

    def post(
        self,
        shown: Certified | None,
        path: str = "/v1/authorize",
        body: Json = QUESTION,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The answer to a request on a connection of its own."""
        with self.client(shown) as http:
            return http.post(path, json=body, headers=headers)

    def is_cut_off(self, shown: Certified) -> bool:
        """Whether the handshake fails with this certificate."""
        try:
            self.post(shown)
        except httpx.TransportError:
            return True
        return False


@pytest.fixture(scope="module", params=[2], ids=["two workers"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: Postgres
) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("tls"), request.param, postgres.new_store())
    with found.service:
        yield found


def test_a_certificate_decides_within_its_callers_patterns(world: World) -> None:
    answer = world.post(world.orders)
    assert (answer.status_code, answer.json()["results"]) == (OK, ["ALLOWED"])
    for principal in ("User:alice", "User:admin"):
        assert world.post(world.orders, body={**QUESTION, "context": context(principal)}).status_code == FORBIDDEN
    body = {"context": context("User:orders"), "filter": {}}
    assert world.post(world.orders, "/v1/acls/search", body).status_code == FORBIDDEN


def test_every_request_of_a_connection_is_its_callers(world: World) -> None:
    with world.client(world.orders) as http:
        assert [http.post("/v1/authorize", json=QUESTION).status_code for _ in range(50)] == [OK] * 50


def test_no_certificate_and_one_of_nobody_are_refused_alike(world: World) -> None:
    nobody = world.authority.certify("nobody", ["DNS:nobody.example"], common_name=SPIFFE)
    nameless = world.authority.certify("nameless", [])
    for shown in (None, nobody, nameless):
        answer = world.post(shown)
        assert answer.status_code == UNAUTHORIZED
        assert answer.json()["code"] == "SASL_AUTHENTICATION_FAILED"
    with world.client() as http:
        assert http.get("/livez").status_code == OK


def test_a_certificate_of_two_callers_is_nobodys(world: World) -> None:
    both = world.authority.certify("both", [SPIFFE, "DNS:platform.example"])
    assert world.post(both).status_code == UNAUTHORIZED


def test_a_bad_token_is_not_mended_by_a_good_certificate(world: World) -> None:
    assert world.post(world.orders, headers={"authorization": "Bearer nonsense"}).status_code == UNAUTHORIZED


def test_expired_certificates_and_those_of_strangers_end_in_the_handshake(world: World) -> None:
    expired = world.authority.certify("expired", [SPIFFE], valid_for=timedelta(seconds=-5))
    stranger = world.strangers.certify("stranger", [SPIFFE])
    assert world.is_cut_off(expired)
    assert world.is_cut_off(stranger)


def test_plain_http_is_not_answered(world: World) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.post(world.service.url.replace("https:", "http:") + "/v1/authorize", json=QUESTION, timeout=LIMIT_S)


@pytest.mark.parametrize("world", [1, 2], ids=["one process", "two workers"], indirect=True)
def test_certificates_and_authorities_are_exchanged_while_it_serves(world: World) -> None:
    stranger = world.strangers.certify("stranger", [SPIFFE])
    with world.client(world.orders) as standing:
        assert standing.post("/v1/authorize", json=QUESTION).status_code == OK
        with world.reloaded_everywhere():
            world.authority.certify("server")
        with world.reloaded_everywhere():
            world.trust(world.strangers)
        assert not any(world.is_cut_off(stranger) for _ in range(8))
        assert all(world.is_cut_off(world.orders) for _ in range(8))
        assert standing.post("/v1/authorize", json=QUESTION).status_code == OK
        with world.reloaded_everywhere():
            world.trust(world.authority)
        assert not any(world.is_cut_off(world.orders) for _ in range(8))


def serve_in(folder: Path) -> subprocess.CompletedProcess[str]:
    """A `klamm serve` that does not come up."""
    klamm = str(Path(sys.executable).with_name("klamm"))
    clean = without_ours()
    done = subprocess.run(
        [klamm, "serve", "--port", "0", "--data-dir", "data"],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    hear(f"{done.stdout}\n{done.stderr}")
    return done


def test_broken_files_end_the_start_with_a_line_that_names_them(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.certify("server")
    (tmp_path / "clients.pem").write_bytes(authority.file.read_bytes())
    (tmp_path / "server.key").write_bytes(authority.certify("other").key.read_bytes())
    (tmp_path / "klamm.toml").write_text(TOML)
    done = serve_in(tmp_path)
    assert done.returncode == 2
    assert "`server.key` is not the key of the certificate `server.crt`" in done.stderr
    assert "Traceback" not in done.stderr
