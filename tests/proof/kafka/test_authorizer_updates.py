"""Changes of ACLs through the broker's own authorizer go to the first service that takes them, and to no second one."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.klamm import SUPER_USER, Json, Process, acl, over_socket
from tests.proof.kafka.authorizer import Authorizer, Host
from tests.proof.kafka.upstream import server_of
from tests.scripted_server import Answer, ScriptedServer, Step, hang_up, problem

_ACL: Json = {
    **acl("changed"),
    "id": "4f3e2d1c-6b7a-4859-9c0d-1e2f3a4b5c55",
    "pattern_type": "LITERAL",
    "host": "*",
    "operation": "READ",
}
_DONE = "Optional.empty"
_GATEWAY = Answer(502, b"<html>Bad Gateway</html>", media_type="text/html")
_UNAVAILABLE = problem(503, "STORE_UNAVAILABLE", "the store does not answer")


@pytest.fixture(scope="module")
def service(authorizer: Authorizer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    assert authorizer
    with over_socket("--data-dir", str(tmp_path_factory.mktemp("service") / "data")) as running:
        yield running.ready()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a process that is frozen: it is connected to, and never says anything."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def _create(authorizer: Authorizer, folder: Path, *urls: str) -> str:
    with Host(authorizer, folder, klamm_urls=",".join(urls), klamm_principal=SUPER_USER) as host:
        return host.do("create", acls=[_ACL])


def _names(service: Process) -> list[str]:
    """Those of the ACLs that are there, which then are no longer there."""
    names = [acl["resource_name"] for acl in service.acls()]
    service.delete({})
    return names


def _taking(posted: Step) -> ScriptedServer:
    """A service that is ready, has no feed, and answers a change like this."""
    answers = {"/readyz": Answer(), "/v1/acls": posted}
    return server_of(lambda path: answers.get(path, _UNAVAILABLE))


def _count_posts(server: ScriptedServer) -> int:
    return sum(seen.method == "POST" for seen in server.seen)


def test_a_url_that_can_not_have_received_the_change_is_passed_over(
    authorizer: Authorizer, service: Process, silent: str, tmp_path: Path
) -> None:
    away = [
        "https://no-such-host.invalid:8443",
        "http://127.0.0.1:9",
        f"http://{silent}",
        f"https://{silent}",
        service.url.replace("http", "https"),
    ]
    assert _create(authorizer, tmp_path, *away, service.url) == _DONE
    assert _names(service) == ["changed"]


@pytest.mark.parametrize("answer", [_GATEWAY, _UNAVAILABLE, hang_up], ids=["gateway", "unavailable", "hang_up"])
def test_a_service_that_is_not_ready_is_passed_over(
    authorizer: Authorizer, service: Process, tmp_path: Path, answer: Step
) -> None:
    with server_of(lambda _: answer) as server:
        assert _create(authorizer, tmp_path, server.url, service.url) == _DONE
        assert _count_posts(server) == 0
    assert _names(service) == ["changed"]


@pytest.mark.parametrize(("status", "code"), [(503, "STORE_UNAVAILABLE"), (429, "OVERLOADED")])
def test_a_refusal_by_which_nothing_was_written_leads_to_the_next_url(
    authorizer: Authorizer, service: Process, tmp_path: Path, status: int, code: str
) -> None:
    with _taking(problem(status, code, "not now")) as server:
        assert _create(authorizer, tmp_path, server.url, service.url) == _DONE
        assert _count_posts(server) == 1
    assert _names(service) == ["changed"]


@pytest.mark.parametrize("answer", [_GATEWAY, hang_up, problem(504, "REQUEST_TIMED_OUT", "the outcome is unknown")])
def test_a_change_that_may_have_been_made_is_not_sent_again(
    authorizer: Authorizer, service: Process, tmp_path: Path, answer: Step
) -> None:
    with _taking(answer) as server:
        said = _create(authorizer, tmp_path, server.url, service.url)
        assert "nobody knows whether the ACLs were changed" in said or "the outcome is unknown" in said
        assert _count_posts(server) == 1
    assert _names(service) == []


def test_a_refusal_of_the_change_is_handed_on(authorizer: Authorizer, service: Process, tmp_path: Path) -> None:
    with _taking(problem(403, "CLUSTER_AUTHORIZATION_FAILED", "not you", error_code=31)) as server:
        said = _create(authorizer, tmp_path, server.url, service.url)
        assert "ClusterAuthorizationException: Klamm refused the change: not you" in said
    assert _names(service) == []


def test_without_any_url_the_acls_were_not_changed(authorizer: Authorizer, silent: str, tmp_path: Path) -> None:
    said = _create(authorizer, tmp_path, "http://127.0.0.1:9", f"http://{silent}")
    assert "the ACLs were not changed: Klamm can't be reached at http://127.0.0.1:9 (" in said
