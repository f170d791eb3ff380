"""The sidecars of examples/: they wait for a Klamm that is not ready, follow its tokens, and take nothing for a yes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.klamm import ROOT, Process, acl, replica, wait_until
from tests.postgres import Postgres
from tests.proof.clients.conftest import ClientOf
from tests.proof.clients.programs_run import PROGRAMS, said
from tests.proof.clients.scripted_service import decision, refusal, scripted_service

ODD_NAME = 'orders "of" 100 % \\ für alle 🐙'
NOT_READY = refusal(503, "AUTHORIZER_NOT_READY", retriable=True)
UTF8 = {"LC_ALL": "C.UTF-8"}

Command = tuple[list[str], dict[str, str]]


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres") / "data") as server:
        yield server


@pytest.fixture(scope="module", params=["python", "java"])
def commands(
    request: pytest.FixtureRequest, client_of: ClientOf, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Command]:
    """How the example itself (`sidecar`) and a service around it (`asking`) are run, in each language."""
    folder = tmp_path_factory.mktemp("sidecar")
    if request.param == "python":
        (wheel,) = (client_of("python") / "dist").glob("*.whl")
        example = ROOT / "examples" / "sidecar"
        scripts = {"sidecar": example / "sidecar.py", "asking": PROGRAMS / "python" / "asking.py"}
        path = {"PYTHONPATH": f"{wheel}{os.pathsep}{example}", "PYTHONDONTWRITEBYTECODE": "1"}
        return lambda name: ([sys.executable, "-W", "error::DeprecationWarning", str(scripts[name])], path)
    if shutil.which("javac") is None:
        pytest.skip("there is no `javac`; install a JDK, 11 or newer (such as the package openjdk-17-jdk)")
    source = ROOT / "examples" / "java" / "Sidecar.java"
    said(
        ["javac", "--release", "11", "-Xlint:all", "-Werror", "-d", folder, source, PROGRAMS / "java" / "Asking.java"],
        folder,
    )
    java = ["java", "-Xmx128m", "-Dfile.encoding=UTF-8"]
    programs = {"sidecar": [*java, str(source)], "asking": [*java, "--class-path", str(folder), "Asking"]}
    return lambda name: (programs[name], UTF8)


def asked(command: Command, folder: Path, *arguments: str) -> list[str]:
    return said([*command[0], *arguments], folder, **command[1]).splitlines()


def test_it_asks_again_while_klamm_is_not_ready_and_gets_its_answer_once_it_is(
    own_server: Postgres, commands: Callable[[str], Command], tmp_path: Path
) -> None:
    own_server.start()
    dsn = own_server.new_store()
    with replica(dsn) as first:
        first.ready().create(acl(ODD_NAME))
    own_server.stop()
    program, environment = commands("sidecar")
    with replica(dsn) as service:
        question = [service.url, "User:alice", "READ", "TOPIC", ODD_NAME]
        with subprocess.Popen(
            [*program, *question], cwd=tmp_path, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
        ) as waiting:
            wait_until(lambda: refusals(service) >= 2, "it has asked, and asked again")
            assert waiting.poll() is None
            own_server.start()
            told, _ = waiting.communicate(timeout=120)
        assert (told, waiting.returncode) == ("ALLOWED\n", 0)
        question[-1] = "another"
        denied = subprocess.run(
            [*program, *question], env={**os.environ, **environment}, capture_output=True, timeout=120, check=False
        )
        assert (denied.stdout, denied.returncode) == (b"DENIED\n", 1)


def refusals(service: Process) -> float:
    """How many authorize requests it has answered with a 5xx."""
    page = service.http.get("/metrics").text.splitlines()
    counted = [line for line in page if line.startswith("klamm_http_requests_total{") and '"authorize"' in line]
    return sum(float(line.split()[-1]) for line in counted if '"5xx"' in line)


def test_the_token_of_each_answer_goes_with_the_next_question(
    commands: Callable[[str], Command], tmp_path: Path
) -> None:
    script: Sequence[tuple[int, dict[str, object]]] = [
        NOT_READY,
        decision("ALLOWED", None),
        decision("ALLOWED", "a:1"),
        refusal(503, "OFFSET_NOT_AVAILABLE", retriable=True),
        decision("DENIED", "a:2"),
        refusal(409, "TOKEN_EPOCH_MISMATCH", retriable=False),
        decision("ALLOWED", "b:1"),
        decision("ALLOWED", "b:1"),
    ]
    with scripted_service(script) as service:
        told = asked(commands("asking"), tmp_path, service.url, "first", ODD_NAME, "third", "fourth", "fifth")
    assert told == ["ALLOWED", "ALLOWED", "DENIED", "ALLOWED", "ALLOWED"]
    assert [body.get("at_least") for body in service.asked] == [None, None, None, "a:1", "a:1", "a:2", None, "b:1"]
    assert service.asked[2]["actions"][0]["resource_name"] == ODD_NAME


def test_nothing_but_allowed_is_a_yes_and_what_will_not_pass_is_not_asked_again(
    commands: Callable[[str], Command], tmp_path: Path
) -> None:
    script: Sequence[tuple[int, dict[str, object]]] = [
        decision("DENIED", "a:1"),
        refusal(403, "CLUSTER_AUTHORIZATION_FAILED", retriable=False),
        refusal(400, "INVALID_REQUEST", retriable=False),
    ]
    with scripted_service(script) as service:
        told = asked(commands("asking"), tmp_path, service.url, "first", "second", "third")
    assert told == ["DENIED", "no decision", "no decision"]
    assert len(service.asked) == len(script)
