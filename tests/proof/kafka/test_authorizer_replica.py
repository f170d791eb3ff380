"""The broker's own authorizer beside a real service: it follows, it outlives it, and it believes no other history."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.klamm import SUPER_USER, Json, Process, acl, over_socket, wait_until
from tests.proof.kafka.authorizer import Authorizer, Host
from tests.proof.kafka.broker import free_ports

_NOBODY = "http://127.0.0.1:9"
_SHORT_S = 20
_RESTARTS = 4
_EARLY_S = 4.0
"""An ALLOW ends early by the time that an answer of the service took; this machine may be busy."""
_NOT_READY = "org.apache.kafka.common.errors.AuthorizerNotReadyException"


@contextmanager
def _service(folder: Path, port: int) -> Iterator[Process]:
    with over_socket("--port", str(port), "--data-dir", str(folder)) as service:
        yield service.ready()


def _host(authorizer: Authorizer, folder: Path, urls: str, **more: str) -> Host:
    return Host(authorizer, folder, klamm_urls=urls, klamm_state_dir=str(folder / "state"), **more)


def copy_folder(folder: Path, to: Path) -> None:
    """As a backup does it."""
    # Its files may belong to a user of PostgreSQL's own, and still do in the copy.
    subprocess.run(["cp", "-a", str(folder), str(to)], check=True, timeout=60)  # noqa: S607 - on every machine


def _acl(name: str) -> Json:
    id_ = "4f3e2d1c-6b7a-4859-9c0d-1e2f3a4b5c55"
    return {**acl(name), "id": id_, "pattern_type": "LITERAL", "host": "*", "operation": "READ"}


def test_it_follows_changes_and_outlives_the_service(authorizer: Authorizer, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with _host(authorizer, tmp_path, f"{_NOBODY},{url}", klamm_principal=SUPER_USER) as host:
        assert host.reads("a") == _NOT_READY
        assert host.do("listeners") == "true false"
        refused = host.do("create", acls=[_acl("a")])
        assert "the ACLs were not changed: Klamm can't be reached" in refused
        assert refused.startswith("Optional["), "a result that says why; Kafka never answers a change that throws"
        with _service(tmp_path / "data", port) as service:
            host.becomes("a", "DENIED")
            wait_until(lambda: host.do("listeners") == "true true", "both may start")
            service.create(acl("a"), acl("p", pattern_type="PREFIXED"))
            host.becomes("a", "ALLOWED")
            assert host.do("ask", names=["p", "pp", "q"]) == "[ALLOWED, ALLOWED, DENIED]"
            assert host.do("create", acls=[_acl("b")]) == "Optional.empty"
            assert host.reads("b") == "ALLOWED", "the future is done when its own state has the ACL"
            service.delete({"resource_name": "a"})
            host.becomes("a", "DENIED")
        assert host.reads("b") == "ALLOWED"
        assert host.ended() == "[]", "threads that outlive the authorizer"
    with _host(authorizer, tmp_path, _NOBODY) as host:
        wait_until(lambda: host.reads("b") == "ALLOWED", "the state file is read")
        assert host.do("ask", names=["a", "pp", "q"]) == "[DENIED, ALLOWED, DENIED]"
        file = next((tmp_path / "state").glob("*.jsonl"))
    # kill -9 left no bit behind; but if half a line is there, or a right was added by hand, the file is no state.
    text = file.read_text()
    for damaged in (text[:-9], text.replace('"pp"', '"x"').replace('"p"', '""'), ""):
        assert damaged != text
        file.write_text(damaged)
        with _host(authorizer, tmp_path, _NOBODY) as host:
            wait_until(lambda host=host: host.do("figures").split()[2] != "0", "it has tried to follow")  # type: ignore[misc]
            assert host.reads("b") == _NOT_READY
    with _service(tmp_path / "data", port), _host(authorizer, tmp_path, url) as host:
        host.becomes("b", "ALLOWED")


def test_a_store_put_back_to_an_older_state_is_followed_there(authorizer: Authorizer, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    data = tmp_path / "data"
    with _service(data, port) as service:
        service.create(acl("kept"))
    copy_folder(data, tmp_path / "backup")
    with _host(authorizer, tmp_path, url) as host:
        with _service(data, port) as service:
            service.create(acl("lost"))
            host.becomes("lost", "ALLOWED")
        shutil.rmtree(data)
        copy_folder(tmp_path / "backup", data)
        with _service(data, port) as service:
            service.create(acl("new"))
            host.becomes("new", "ALLOWED")
            assert host.do("ask", names=["kept", "lost", "new"]) == "[ALLOWED, DENIED, ALLOWED]"


def test_a_store_put_back_while_only_this_follower_ran_is_found_out_although_nobody_writes(
    authorizer: Authorizer, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    data = tmp_path / "data"
    with _service(data, port) as service:
        service.create(acl("kept"), acl("revoked"))
    copy_folder(data, tmp_path / "backup")
    with _host(authorizer, tmp_path, f"http://127.0.0.1:{port}") as host:
        with _service(data, port) as service:
            service.create(acl("lost"))
            host.becomes("lost", "ALLOWED")
        shutil.rmtree(data)
        copy_folder(tmp_path / "backup", data)
        with _service(data, port):
            host.becomes("lost", "DENIED")
            assert host.reads("kept") == "ALLOWED"


def test_restarts_of_the_service_cost_no_snapshot(authorizer: Authorizer, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with _host(authorizer, tmp_path, f"http://127.0.0.1:{port}") as host:
        for number in range(_RESTARTS):
            with _service(tmp_path / "data", port) as service:
                service.create(acl(f"topic-{number}"))
                host.becomes(f"topic-{number}", "ALLOWED")
        assert host.metric("snapshots-total") == 1


def test_an_allow_ends_at_its_second_also_while_klamm_is_away(authorizer: Authorizer, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with _host(authorizer, tmp_path, f"http://127.0.0.1:{port}") as host:
        with _service(tmp_path / "data", port) as service:
            second = int(time.time()) + _SHORT_S
            ends = datetime.fromtimestamp(second, UTC)
            service.create(acl("short", expires_at=ends.isoformat()), acl("long"))
            host.becomes("short", "ALLOWED")
        host.becomes("short", "DENIED")
        assert time.time() > second - _EARLY_S
        assert host.reads("long") == "ALLOWED"
    with _host(authorizer, tmp_path, _NOBODY) as host:
        wait_until(lambda: host.reads("long") == "ALLOWED", "the state file is read")
        assert host.reads("short") == "DENIED", "without the store's time it may have ended"


def test_a_state_that_is_too_old_decides_nothing(authorizer: Authorizer, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with _host(authorizer, tmp_path, url, klamm_max_staleness_ms="3000", super_users="User:root") as host:
        with _service(tmp_path / "data", port) as service:
            service.create(acl("a"))
            host.becomes("a", "ALLOWED")
        host.becomes("a", _NOT_READY)
        assert host.reads("a", "User:root") == "ALLOWED"
        assert host.do("reconfigure", configs={"klamm.urls": url, "super.users": "User:alice"}) == "done"
        assert host.reads("a") == "ALLOWED"
        assert host.reads("a", "User:root") == "DENIED"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"klamm_urls": ""}, "configuration klamm.urls: name where Klamm is, such as http://127.0.0.1:8080"),
        ({"klamm_urls": "http://10.0.0.1:8080"}, "http is for loopback only"),
        ({"klamm_urls": "ftp://127.0.0.1"}, "is not of the form https://host:port"),
        ({"klamm_token_file": "/no/such/file"}, "klamm.token.file: the file of the token can't be read"),
        ({"klamm_max_staleness_ms": "0"}, "configuration klamm.max.staleness.ms: it must be at least 1"),
        ({"klamm_max_staleness_ms": "soon"}, "configuration klamm.max.staleness.ms: Not a number of type LONG"),
        ({"allow_everyone_if_no_acl_found": "yes"}, "yes for configuration allow.everyone.if.no.acl.found: Expected"),
        ({"klamm_principal": "alice"}, "configuration klamm.principal: it is not of the form User:name"),
        ({"klamm_state_dir": "/proc/klamm"}, "/proc/klamm for configuration klamm.state.dir: the folder can't be made"),
        ({"klamm_decision_log_path": "/proc/klamm"}, "configuration klamm.decision.log.path: the folder can't be made"),
        ({"klamm_truststore_location": "/no/such/store"}, "`klamm.truststore.*` and `klamm.keystore.*` can't be used"),
        ({"klamm_ulrs": "x"}, "`klamm.ulrs` is no setting of this plugin"),
        ({"super_users": "alice"}, "expected a string in format principalType:principalName but got alice"),
    ],
)
def test_a_wrong_setting_is_refused_in_a_sentence(
    authorizer: Authorizer, tmp_path: Path, settings: dict[str, str], why: str
) -> None:
    with Host(authorizer, tmp_path, **{"klamm_urls": "http://127.0.0.1:8080", **settings}) as host:
        assert host.began.startswith("refused: ")
        assert why in host.began
