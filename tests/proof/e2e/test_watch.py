"""The watch stream of a real service: rights, a drain, a client that doesn't read; tests/gate/e2e has the rest."""

import contextlib
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.rest.callers.token_file import add_token
from tests.klamm import Process, acl, over_socket, wait_until
from tests.planted import plant
from tests.watching import WATCH, Stream, token_of


def test_a_client_that_does_not_read_is_cut(service: Process) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.sendall(b"GET /v1/watch?snapshot=true HTTP/1.1\r\nhost: localhost\r\n\r\n")
        wait_until(lambda: service.metric("klamm_watch_readers") == 1, "it is there")
        for number in range(80):
            service.create(*(acl(f"{number}-{at}-{'x' * 4_000}") for at in range(50)))
        wait_until(lambda: service.metric("klamm_watch_readers") == 0, "it was cut")


@pytest.fixture
def guarded(tmp_path: Path, migrated_database_url: str) -> Iterator[tuple[Process, dict[str, str]]]:
    (tmp_path / "klamm.toml").write_text(
        'tokens.file = "klamm.tokens"\n[callers.sidecar]\nrole = "follow"\n[callers.app]\nrole = "decide"\n'
        'principals = ["User:*"]\n[callers.root]\nrole = "admin"\nprincipal = "User:admin"\n'
        '[callers.weak]\nrole = "admin"\nprincipal = "User:weak"\n[callers.prometheus]\nrole = "observe"\n'
    )
    names = ("sidecar", "app", "root", "weak", "prometheus")
    tokens = {name: plant(add_token(tmp_path / "klamm.tokens", name, names)) for name in names}
    with over_socket(settings={"KLAMM_DATABASE_URL": migrated_database_url}, folder=tmp_path) as service:
        service.ready()
        yield service, {name: f"Bearer {token}" for name, token in tokens.items()}


def test_who_may_watch_and_until_when(guarded: tuple[Process, dict[str, str]], tmp_path: Path) -> None:
    service, shown = guarded
    statuses = {
        name: httpx.get(f"{service.url}{WATCH}?after=x", headers={"authorization": token}, timeout=60).status_code
        for name, token in shown.items()
    }
    # 400 is a token that is none, which is looked at after the rights of the role.
    assert statuses == {"sidecar": 400, "app": 403, "root": 400, "weak": 400, "prometheus": 403}
    assert httpx.get(f"{service.url}{WATCH}?snapshot=true", timeout=60).status_code == httpx.codes.UNAUTHORIZED
    weak = {"authorization": shown["weak"]}
    refused = httpx.get(f"{service.url}{WATCH}?snapshot=true", headers=weak, timeout=60)
    assert (refused.status_code, refused.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")

    root = {"authorization": shown["root"]}
    body: dict[str, object] = {"context": {"principal": "User:admin", "client_address": "127.0.0.1"}}
    for right in ("DESCRIBE", "DESCRIBE_CONFIGS"):
        # The feed has ACLs and properties, so either right alone is too little.
        refused = httpx.get(f"{service.url}{WATCH}?snapshot=true", headers=weak, timeout=60)
        assert (refused.status_code, refused.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
        body["bindings"] = [acl("kafka-cluster", "User:weak", right, resource_type="CLUSTER")]
        made = httpx.post(f"{service.url}/v1/acls", json=body, headers=root, timeout=60)
        assert made.status_code == httpx.codes.OK
    sidecar = {"authorization": shown["sidecar"]}
    with (
        Stream(service.url, "snapshot=true&bookmark_ms=200", weak) as by_right,
        Stream(service.url, "snapshot=true&bookmark_ms=200", sidecar) as by_role,
    ):
        wait_until(lambda: None not in (by_right.seen.token, by_role.seen.token), "both are there")
        taken = {"context": body["context"], "filters": [{"principal": "User:weak", "operation": "DESCRIBE_CONFIGS"}]}
        gone = httpx.post(f"{service.url}/v1/acls/delete", json=taken, headers=root, timeout=60)
        assert gone.status_code == httpx.codes.OK
        assert by_right.ended() == "caller"
        wait_until(lambda: by_role.seen.token == gone.json()["token"], "the change")
        assert by_right.seen.token != gone.json()["token"], "a change was shown after the right was gone"
        lines = (tmp_path / "klamm.tokens").read_text().splitlines(keepends=True)
        (tmp_path / "klamm.tokens").write_text("".join(each for each in lines if not each.startswith("sidecar")))
        while by_role.seen.ended is None and by_role.fault is None:
            # Its credentials are looked at also while changes come without an end.
            assert (
                httpx.post(f"{service.url}/v1/acls", json=body, headers=root, timeout=60).status_code == httpx.codes.OK
            )
            body["bindings"] = [acl(f"while-revoked-{time.monotonic_ns()}")]
        assert by_role.ended() == "caller"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_drain_ends_the_streams_with_their_token(migrated_database_url: str, workers: str) -> None:
    variables = {"KLAMM_DRAIN_MS": "300000", "KLAMM_DATABASE_URL": migrated_database_url}
    with over_socket("--workers", workers, settings=variables) as service:
        service.ready()
        service.create(acl("orders"))
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(Stream(service.url, "snapshot=true")) for _ in range(6)]
            for each in streams:
                each.until(token_of(service))
            service.process.send_signal(signal.SIGTERM)
            assert {each.ended() for each in streams} == {"draining"}
            assert len({each.seen.token for each in streams}) == 1
        service.process.send_signal(signal.SIGTERM)
