"""The watchers of examples/: they go on where a stream broke, begin anew where they must, and see every change."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.gate.unit.client.watch.test_following import EPOCH, end, snapshot, stream, synced, torn
from tests.klamm import ROOT, acl, over_socket, wait_until
from tests.proof.clients.programs_run import said
from tests.scripted_server import Answer, ScriptedServer, Step, hang_up, problem

HASH = "00" * 32
ACL = {"id": "4f3e2d1c-6b7a-4859-9c0d-1e2f3a4b5c55", **acl('orders \u2028 "token":"x"')}


_TOOLS = {"java": "javac", "go": "go", "node": "node"}


@pytest.fixture(scope="module", params=["python", "java", "go", "node"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    tool, folder = _TOOLS.get(request.param), tmp_path_factory.mktemp("watch")
    if tool is not None and shutil.which(tool) is None:
        pytest.skip(f"there is no `{tool}`, which the example in examples/{request.param} needs")
    match request.param:
        case "python":
            return [sys.executable, str(ROOT / "examples/sidecar/watch.py")]
        case "java":
            source = ROOT / "examples/java/Watch.java"
            said(["javac", "--release", "11", "-Xlint:all", "-Werror", "-d", folder, source], folder)
            return ["java", "-Xmx128m", "-Dfile.encoding=UTF-8", "--class-path", str(folder), "Watch"]
        case "go":
            offline = {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOWORK": "off"}
            shutil.copy(ROOT / "examples/go/watch.go", folder)
            said(["go", "vet", "watch.go"], folder, **offline)
            said(["go", "build", "-o", "watch", "watch.go"], folder, **offline)
            return [str(folder / "watch")]
    return ["node", str(ROOT / "examples/node/watch.mjs")]


@contextmanager
def following(program: list[str], url: str, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with (
        (folder / "out").open("wb") as out,
        subprocess.Popen([*program, url], stdout=out, stderr=subprocess.STDOUT, env={**os.environ}) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def transaction(offset: int, kind: str = "AccessControlEntryRecord") -> dict[str, object]:
    record = {"kind": kind, "hash_version": 1, "actor": "User:a", "comment": None, "acl": ACL}
    frame = {"first_offset": offset, "last_offset": offset, "recorded_at": "2026-11-23T06:00:00Z", "hash": HASH}
    return {"type": "transaction", "token": f"{EPOCH}:{offset}", **frame, "records": [record]}


def changes(folder: Path) -> list[str]:
    """The names in the changes that it has printed so far, whole lines only."""
    found = []
    for line in (folder / "out").read_text().split("\n")[:-1]:
        if line.startswith('{"kind"'):
            found.append(json.loads(line)["kind"])
        elif '"transaction"' in line:
            found += [each["kind"] for each in json.loads(line)["records"]]
    return found


def test_it_goes_on_where_a_stream_broke_and_begins_anew_where_it_must(program: list[str], tmp_path: Path) -> None:
    gone, busy = problem(410, "OFFSET_OUT_OF_RANGE", "gone"), problem(503, "AUTHORIZER_NOT_READY", "", retriable=True)
    removed = "RemoveAccessControlEntryRecord"
    script: list[Step] = [
        hang_up,
        busy,
        stream(snapshot(5)),  # cut before it is whole
        stream(snapshot(6), synced(6), transaction(7), {"type": "weather"}, end(7)),
        torn(transaction(8, removed)),
        Answer(502, b"<html>", media_type="text/html"),
        gone,
        stream(snapshot(9), synced(9), transaction(10)),
        problem(409, "TOKEN_EPOCH_MISMATCH", "another epoch"),
        problem(403, "CLUSTER_AUTHORIZATION_FAILED", "no"),
    ]
    with ScriptedServer(*script) as server, following(program, server.url, tmp_path) as process:
        assert process.wait(120) == 1
        asked = [parse_qs(urlsplit(each.path).query) for each in server.seen]
    anew = {"snapshot": ["true"]}
    after = [{"after": [f"{EPOCH}:{offset}"]} for offset in (7, 8, 8, 10)]
    assert asked == [anew, anew, anew, anew, *after[:3], anew, after[3], anew]
    assert changes(tmp_path) == ["AccessControlEntryRecord", removed, "AccessControlEntryRecord"]
    assert "403" in (tmp_path / "out").read_text()


def test_it_sees_the_changes_of_a_real_service(program: list[str], tmp_path: Path) -> None:
    with over_socket("--data-dir", str(tmp_path / "data")) as service:
        service.ready()
        with following(program, service.url, tmp_path):
            wait_until(lambda: service.metric("klamm_watch_readers") == 1, "it watches")
            service.create(acl("a\u2028b"), acl("c"))
            service.delete({"resource_name": "c"})
            wait_until(lambda: len(changes(tmp_path)) == 3, "it has seen all three")
