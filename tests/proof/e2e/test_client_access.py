"""How commands reach a real service: over TLS with a token or a certificate, and over a Unix socket."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.client.acls.command import main as run_acls
from app.client.http.access import AccessFlags, make_access
from app.client.http.replies import ServiceError
from app.client.http.service import Service as Client
from app.core.kafka.filters import AclBindingFilter
from app.rest.callers.token_file import add_token
from tests.certificates import Authority
from tests.klamm import SUPER_USER, over_socket
from tests.planted import plant
from tests.postgres import Postgres

TOML = """
tokens.file = "klamm.tokens"
tls.certificate = "server.crt"
tls.key = "server.key"
tls.client.ca = "authority.pem"

[callers.root]
role = "admin"
principal = "User:admin"

[callers.platform]
role = "admin"
principal = "User:platform"
certificate = "DNS:platform.example"
"""


@dataclass(frozen=True)
class World:
    """A service with TLS and callers; its folder holds a token and certificates."""

    url: str
    folder: Path

    def client(self, principal: str, **flags: str) -> Client:
        return Client(
            make_access(AccessFlags(self.url, principal, ca_file=str(self.folder / "authority.pem"), **flags))
        )

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    authority.certify("server")
    authority.certify("platform", ["DNS:platform.example"])
    (folder / "klamm.toml").write_text(TOML)
    token = plant(add_token(folder / "klamm.tokens", "root", ("root", "platform")))
    (folder / "token").write_text(f"{token}\n")
    (folder / "token").chmod(0o600)
    with over_socket(
        settings={"KLAMM_SUPER_USERS": SUPER_USER, "KLAMM_DATABASE_URL": postgres.new_store()}, folder=folder
    ) as service:
        yield World(service.url, folder)


def test_a_token_lets_its_caller_in(world: World) -> None:
    with world.client(SUPER_USER, token_file=str(world.folder / "token")) as client:
        assert client.acls(AclBindingFilter()).acls == []


def test_a_token_may_stand_in_the_file_of_properties(world: World) -> None:
    config = world.file("token.properties", f"token={(world.folder / 'token').read_text()}")
    with world.client(SUPER_USER, command_config=config) as client:
        assert client.acls(AclBindingFilter()).acls == []


def test_a_certificate_lets_its_caller_in_and_its_acls_decide(world: World) -> None:
    lines = [
        f"ssl.{kind}.location={world.folder / f'platform.{end}'}"
        for kind, end in (("certificate", "crt"), ("key", "key"))
    ]
    config = world.file("certificate.properties", "\n".join(lines))
    with world.client("User:platform", command_config=config) as client, pytest.raises(ServiceError) as caught:
        client.acls(AclBindingFilter())
    assert (caught.value.code, caught.value.status) == ("CLUSTER_AUTHORIZATION_FAILED", 403)


def test_who_shows_nothing_or_something_wrong_is_refused_once_with_the_way_out(world: World) -> None:
    wrong = plant("klamm_planted-wrong-client-token-4321")
    for flags in ({}, {"token_file": world.file("wrong", wrong)}):
        with world.client(SUPER_USER, **flags) as client, pytest.raises(ServiceError) as caught:
            client.acls(AclBindingFilter())
        assert (caught.value.code, caught.value.status) == ("SASL_AUTHENTICATION_FAILED", 401)
        assert "--token-file" in str(caught.value)
        assert wrong not in str(caught.value)


def test_a_service_whose_certificate_is_not_believed_hears_no_token(world: World) -> None:
    access = make_access(AccessFlags(world.url, SUPER_USER, token_file=str(world.folder / "token")))
    with Client(access) as client, pytest.raises(ServiceError, match="certificate is not trusted"):
        client.acls(AclBindingFilter())


def test_plain_http_to_a_service_with_tls_is_told_as_such(world: World) -> None:
    access = make_access(AccessFlags(world.url.replace("https", "http"), SUPER_USER, timeout="5"))
    with Client(access) as client, pytest.raises(ServiceError, match="https"):
        client.acls(AclBindingFilter())


def test_a_unix_socket_is_spoken_to_as_soon_as_the_service_is_ready(tmp_path: Path, migrated_database_url: str) -> None:
    path = tmp_path / "klamm.sock"
    with over_socket("--uds", str(path), settings={"KLAMM_DATABASE_URL": migrated_database_url}) as service:
        assert service.url == f"unix:{path}"
        out = io.StringIO()
        words = ["--klamm", service.url, "--as", SUPER_USER, "--add", "--allow-principal", "User:a", "--topic", "t"]
        # It may still be loading: that is waited for.
        assert run_acls(words, out, io.StringIO(), io.StringIO()) == 0, out.getvalue()
        assert out.getvalue().startswith("Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t")
