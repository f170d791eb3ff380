"""Published faults of Kafka and its libraries, each shown not to be Klamm's: what comes in, and what is logged."""

import ast
import gzip
import itertools
import json
import logging
import re
import socket
import tracemalloc
import zlib
from collections.abc import Iterator
from logging import handlers
from pathlib import Path

import httpx
import pytest
from starlette.types import Message

from app.core.mutations import CreateAcls
from app.logs.audit import AuditLog
from app.logs.service import configure_logging
from app.rest.app import create_rest_app
from tests.bodies import BODIES
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl, in_process
from tests.updates import binding, new

APP = Path(__file__).parents[4] / "app"
MIB = 1024 * 1024
FOR_DECIDE = ("/v1/authorize", "/v1/authorized-operations", "/v1/authorize-by-resource-type", "/v1/list-groups")


# small requests, much memory


async def asked(replica: InProcess, path: str, headers: dict[str, str], chunks: Iterator[bytes]) -> tuple[int, int]:
    """The status of a POST, and how many pieces of its body were taken."""
    taken = 0
    statuses: list[int] = []

    async def receive() -> Message:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": next(chunks), "more_body": True}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "headers": lines, "query_string": b"", "client": None}
    await replica.app({**scope, "raw_path": path.encode(), "root_path": "", "scheme": "http"}, receive, send)
    return statuses[0], taken


@pytest.mark.parametrize("path", BODIES)
async def test_cve_2022_34917_nothing_is_kept_for_whom_nobody_knows_nor_beyond_the_limit(
    replica: InProcess, path: str
) -> None:
    json_type = {"content-type": "application/json"}
    known = {**json_type, "authorization": f"Bearer {replica.tokens['root']}"}
    endless = itertools.repeat(b" " * 65_536)
    # Without credentials, not one byte of a body is waited for.
    assert await asked(replica, path, json_type, endless) == (401, 0)
    assert await asked(replica, path, {**json_type, "authorization": "Bearer klamm_x"}, endless) == (401, 0)
    # What is announced too large is refused before it comes, and what has no end as soon as it is too much.
    assert await asked(replica, path, {**known, "content-length": str(2**31)}, endless) == (413, 0)
    status, taken = await asked(replica, path, known, endless)
    limit = 8 * MIB if path in ("/v1/acls", "/v1/acls/delete") else MIB
    assert (status, taken) == (413, limit // 65_536 + 1)


async def test_cve_2023_34455_no_body_is_unpacked(replica: InProcess) -> None:
    plain = json.dumps(BODIES["/v1/authorize"]).encode()
    bomb = gzip.compress(plain[:-1] + b" " * (64 * MIB) + b"}")
    assert len(bomb) < MIB // 8
    codings = ("gzip", "x-gzip", "deflate", "br", "zstd", "snappy", "lz4", "GZIP", "gzip, gzip", "identity, gzip")
    tracemalloc.start()
    for coding in codings:
        reply = await replica.send("/v1/authorize", bomb, "sidecar", content_encoding=coding)
        assert (reply.status_code, reply.json()["code"]) == (415, "INVALID_REQUEST")
    for body in (bomb, zlib.compress(plain)):
        assert (await replica.send("/v1/authorize", body, "sidecar")).status_code == 400
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * MIB


SMALL = {
    "a large exponent": "1e400000000",
    "a small exponent": "-1e-400000000",
    "digits": "9" * 5_000,
    "zeros": "1" + "0" * 4_000,
    "half a character": '"\\ud800"',
    "lists": "[" * 400,
    "objects": '{"a":' * 200,
}


async def test_cve_2023_34455_small_bodies_take_little_memory(subtests: pytest.Subtests, service: InProcess) -> None:
    for name, value in SMALL.items():
        with subtests.test(name=name):
            for path, body in BODIES.items():
                content = (json.dumps(body)[:-1] + f',"n":{value}}}').encode()
                tracemalloc.start()
                reply = await service.send(path, content)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                assert reply.status_code == 400, (path, reply.text)
                assert peak < 4 * MIB


# logs


class Refusing:
    """In the place of the network: says no, and remembers who asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __call__(self, *where: object, **_: object) -> None:
        self.calls.append(where)
        raise OSError("there is no network here")


@pytest.fixture
def loggers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.usefixtures("loggers_as_before")
def test_cve_2021_4104_cve_2022_23302_logs_go_nowhere_but_to_the_stream(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """log4j 1.x: a sink that looks names up over the network."""
    connected = Refusing()
    monkeypatch.setattr(socket.socket, "connect", connected)
    monkeypatch.setattr(socket, "getaddrinfo", connected)
    monkeypatch.setattr("app.logs.service._CLOSE_S", 60.0)
    configure_logging("DEBUG")
    logging.getLogger("app.test").error("${jndi:ldap://127.0.0.1:1/a}", extra={"name_": "${jndi:rmi://127.0.0.1:1/b}"})
    for each in logging.getLogger().handlers:
        each.close()
    assert capfd.readouterr().err.count("${jndi:") == 2
    assert connected.calls == []
    network = (handlers.SocketHandler, handlers.HTTPHandler, handlers.SMTPHandler, handlers.SysLogHandler)
    every = [logging.getLogger(), *(each for each in logging.Logger.manager.loggerDict.values())]
    found = [handler for logger in every if isinstance(logger, logging.Logger) for handler in logger.handlers]
    assert [handler for handler in found if isinstance(handler, network)] == []


async def test_cve_2022_23305_what_is_logged_is_data_whatever_it_says(service: InProcess) -> None:
    """log4j 1.x: logged text became SQL."""
    names = [
        "'); DROP TABLE acl; --",
        "%s %(x)s {0} {x!r} ${env:HOME} %n",
        "\\u0000 \\n",
        '"}\n{"forged":1}',
        "\u2028\x1b[31m\x85",
    ]
    lines: list[str] = []
    audit = AuditLog(lines.append, service.metrics, form="JSON")
    audit.start()
    app = create_rest_app(service.authorizer, service.metrics, audit)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        for name in names:
            body = {"context": ALICE, "actions": [{**READ_ORDERS, "resource_name": name}]}
            assert (await client.post("/v1/authorize", json=body)).json()["results"] == ["DENIED"]
    audit.close()
    written = "".join(lines).splitlines()
    assert len(written) == len(names)
    for name, line in zip(names, written, strict=True):
        logged = json.loads(line)
        assert f":{name} for request = null" in logged["message"]
        assert logged.keys() == {"time", "level", "logger", "event", "message", "request_id"}


def test_cve_2022_23307_nothing_that_comes_becomes_an_object_of_its_own_choice() -> None:
    """log4j 1.x (Chainsaw): log events were deserialized into whatever they said they were."""
    makers = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "eval", "exec", "compile", "__import__"}
    found = []
    for path in sorted(APP.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: set[str | None] = set()
            if isinstance(node, ast.Import):
                names = {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").partition(".")[0]}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names = {node.func.id}
            found += [f"{path.name}:{name}" for name in names if name in makers]
    # Settings on their way from the supervisor to a worker, by a socket that nobody else has; and YAML's nodes, of
    # which nothing is constructed by a tag.
    assert sorted(found) == ["processes.py:pickle", "yaml_documents.py:yaml"]
    assert not re.search(
        r"yaml\.\w*(load|construct)", (APP / "formats" / "yaml_documents.py").read_text(encoding="utf-8")
    )


# the start, and what is asked before it is over


async def test_pr_13151_a_start_that_fails_never_passes_for_one_that_has_not() -> None:
    """Kafka's broker started although its authorizer had failed to load."""
    async with in_process(reachable=False) as replica:
        replica.store.commit([CreateAcls(new([binding(acl("orders"))]), "User:test")])
        replica.store.poisoned_snapshot = True
        replica.store.unreachable = False
        started = await replica.send("/v1/start", {**BODIES["/v1/start"], "wait_ms": 300})
        assert [each["ready"] for each in started.json()["listeners"]] == [False]
        for probe in ("/readyz", "/readyz/PLAINTEXT", "/startupz"):
            assert (await replica.client.get(probe)).status_code == 503
        reply = await replica.send("/v1/authorize", {"context": ALICE, "actions": [READ_ORDERS]})
        assert (reply.status_code, reply.json()["code"]) == (503, "AUTHORIZER_NOT_READY")


# what is said over HTTP


@pytest.mark.parametrize("name", ["localhost", "broker-1.example.com", "ip6-localhost", "10.0.0.1.nip.io", "0x7f.1"])
async def test_kafka_13698_a_client_is_named_by_its_address_and_never_looked_up(
    service: InProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = Refusing()
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    monkeypatch.setattr(socket, "gethostbyname", looked_up)
    await service.create(acl("orders", host=name))
    context: dict[str, object] = {**ALICE, "client_address": name}
    reply = await service.send("/v1/authorize", {"context": context, "actions": [READ_ORDERS]})
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (400, "/context/client_address")
    assert looked_up.calls == []


@pytest.mark.parametrize("pattern_type", ["PREFIXED", "MATCH", "ANY", "UNKNOWN", "literal"])
async def test_kafka_14733_only_literal_resources_can_be_authorized(service: InProcess, pattern_type: str) -> None:
    actions = [READ_ORDERS, {**READ_ORDERS, "pattern_type": pattern_type}]
    reply = await service.send("/v1/authorize", {"context": ADMIN, "actions": actions})
    assert reply.status_code == 400
    assert [each["pointer"] for each in reply.json()["errors"]] == ["/actions/1/pattern_type"]
    assert await service.authorize(ADMIN, {**READ_ORDERS, "pattern_type": "LITERAL"}) == ["ALLOWED"]


async def test_kafka_14733_an_acl_on_an_empty_name_is_refused_beside_one_that_is_not(service: InProcess) -> None:
    binding = {"resource_type": "TOPIC", "principal": "User:alice", "operation": "READ", "permission_type": "ALLOW"}
    bindings = [{**binding, "resource_name": name} for name in ("", "orders")]
    results = (await service.send("/v1/acls", {"context": ADMIN, "bindings": bindings})).json()["results"]
    assert [(each["error_code"], each["error_message"]) for each in results] == [
        (42, "Invalid empty resource name"),
        (0, None),
    ]
