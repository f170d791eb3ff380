"""Issue 6, the decision log of a real service: every decision that was answered is in it once, and tells the truth."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from app.rest.callers.token_file import add_token
from tests.klamm import LIMIT_S, ROOT, SUPER_USER, Json, Process, acl, action, context, over_socket, wait_until
from tests.planted import hear, plant
from tests.postgres import Store
from tests.proof.e2e.workers import connections, metrics, pids, ready, service_of

ROUNDS = 20
NO_FAULTS = {
    'klamm_decision_log_dropped_total{reason="buffer"}': 0,
    'klamm_decision_log_dropped_total{reason="disk"}': 0,
}


class Expected(NamedTuple):
    """A decision, as its line is to show it. The name is of this one alone."""

    name: str
    principal: str
    result: str
    rule: str
    acl_id: str | None
    epoch: str
    offset: int


def lines(folder: Path) -> list[Json]:
    """Every line of the closed files."""
    texts = [path.read_bytes().decode() for path in sorted(folder.glob("decisions-*.jsonl"))]
    assert [text for text in texts if not text.endswith("\n")] == []
    return [json.loads(line) for text in texts for line in text.split("\n")[:-1]]


def names_in(paths: Sequence[Path]) -> list[str]:
    """The resources of all whole lines in these files."""
    return [json.loads(line)["resource_name"] for path in paths for line in path.read_bytes().split(b"\n")[:-1]]


def grant(service: Process) -> dict[str, str]:
    """Create the ACLs of `asked`; their ids."""
    wanted = {
        "own": acl("own-", pattern_type="PREFIXED"),
        "no": acl("no-", pattern_type="PREFIXED", permission_type="DENY", operation="ALL", principal="User:*"),
        "bob": acl("bob-", "User:bob", pattern_type="PREFIXED"),
    }
    created = service.create(*wanted.values())
    return {name: each["id"] for name, each in zip(wanted, created["results"], strict=True)}


class Asker:
    """Asks for names that nobody else asks for, and notes what has to be in the log."""

    def __init__(self, client: httpx.Client, ids: dict[str, str], number: int) -> None:
        self._client = client
        self._ids = ids
        self._names = (f"{number}-{each}" for each in itertools.count())
        self.expected: list[Expected] = []

    def ask(self, at_least: str | None = None) -> str:
        """A batch and a single question; the token of the answer."""
        rules = {
            f"own-{next(self._names)}": ("ALLOWED", "MatchingAcl", self._ids["own"]),
            f"no-{next(self._names)}": ("DENIED", "MatchingAcl", self._ids["no"]),
            f"bob-{next(self._names)}": ("DENIED", "DefaultDeny", None),
            f"free-{next(self._names)}\n\u2028": ("ALLOWED", "DefaultAllow", None),
        }
        self._put("User:alice", rules, at_least)
        return self._put(SUPER_USER, {f"no-{next(self._names)}": ("ALLOWED", "SuperUser", None)}, at_least)

    def _put(self, principal: str, rules: dict[str, tuple[str, str, str | None]], at_least: str | None) -> str:
        body: Json = {"context": context(principal), "actions": [action(name) for name in rules]}
        if at_least is not None:
            body["at_least"] = at_least
        reply = self._client.post("/v1/authorize", json=body)
        assert reply.status_code == 200, reply.text
        answer = reply.json()
        assert answer["results"] == [result for result, _, _ in rules.values()]
        token: str = answer["token"]
        epoch, _, offset = token.rpartition(":")
        self.expected += [Expected(name, principal, *rule, epoch, int(offset)) for name, rule in rules.items()]
        return token

    def refused(self) -> None:
        """Ask what is not answered, and what is not logged."""
        body: Json = {"context": context(), "actions": [action("orders", "FLY")]}
        assert self._client.post("/v1/authorize", json=body).status_code == 400
        resource = {"resource_type": "TOPIC", "resource_name": "orders"}
        body = {"context": context(), "resources": [resource]}
        assert self._client.post("/v1/authorized-operations", json=body).status_code == 200


@pytest.mark.parametrize("workers", [1, 2])
def test_every_decision_that_was_answered_is_in_the_log_once(workers: int, store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    variables = {
        "KLAMM_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "true",
        "KLAMM_DECISION_LOG_PATH": str(folder),
        "KLAMM_DECISION_LOG_ROTATE_BYTES": "20000",
    }
    service = service_of(workers, store.dsn, **variables)
    with service, connections(ready(service, workers) if workers > 1 else service.ready(), 8, workers) as clients:
        ids = grant(service)
        token = service.create(acl("more"))["token"]
        askers = [Asker(client, ids, number) for number, client in enumerate(clients)]

        def story(asker: Asker) -> None:
            newest = asker.ask(token)
            for number in range(ROUNDS):
                newest = asker.ask(newest if number % 2 else None) if number != ROUNDS // 2 else newest
            asker.refused()

        with ThreadPoolExecutor(len(askers)) as pool:
            list(pool.map(story, askers[1:]))
        # The image goes on, and so do the offsets in the log.
        token = service.create(acl("even more"))["token"]
        story(askers[0])
        expected = [each for asker in askers for each in asker.expected]
        counted = {"klamm_decision_log_lines_total": len(expected), "klamm_decision_log_faults_total": 0, **NO_FAULTS}
        wait_until(lambda: counted.items() <= metrics(service).items(), f"the metrics say {counted}")
        for asker in askers:
            asker.ask()
        processes = set(pids(service).values()) if workers > 1 else {service.process.pid}
        assert service.stop() == 0
    expected = [each for asker in askers for each in asker.expected]
    found = lines(folder)
    keys = ("resource_name", "principal", "result", "rule", "acl_id", "epoch", "offset")
    assert Counter(Expected(*(line[key] for key in keys)) for line in found) == Counter(expected)
    assert {(line["host"], line["operation"], line["resource_type"], line["sampled"]) for line in found} == {
        ("127.0.0.1", "READ", "TOPIC", 1.0)
    }
    assert len({line["offset"] for line in found}) > 1
    files = [path.name for path in folder.iterdir()]
    assert [name for name in files if not name.startswith("decisions-")] == []
    assert {int(name.split("-")[2]) for name in files} == processes
    assert len(files) > workers * 2


def test_what_a_killed_service_had_written_is_closed_by_the_next_one(store: Store, tmp_path: Path) -> None:
    """Both tell which caller asked."""
    folder = tmp_path / "log"
    (tmp_path / "klamm.toml").write_text(
        f'tokens.file = "klamm.tokens"\ndecision.log.path = "{folder}"\n'
        '[callers.gateway]\nrole = "decide"\nprincipals = ["User:*"]\nmay_assert_super = true\n'
    )
    token = plant(add_token(tmp_path / "klamm.tokens", "gateway", ("gateway",)))

    def started() -> Process:
        service = over_socket(settings={"KLAMM_DATABASE_URL": store.dsn}, folder=tmp_path).ready()
        service.http.headers["authorization"] = f"Bearer {token}"
        return service

    with started() as service:
        assert service.authorize(SUPER_USER, action("before")) == ["ALLOWED"]
        wait_until(lambda: names_in([*folder.glob("_decisions-*.jsonl")]) == ["before"], "it is written while open")
        service.stop(signal.SIGKILL)
    with started() as service:
        wait_until(lambda: names_in([*folder.glob("decisions-*.jsonl")]) == ["before"], "it is closed")
        assert service.authorize(SUPER_USER, action("after"), at_least=None) == ["ALLOWED"]
        assert service.stop() == 0
    assert [(line["resource_name"], line["caller"]) for line in lines(folder)] == [
        ("before", "gateway"),
        ("after", "gateway"),
    ]


def test_the_service_goes_on_without_the_folder_and_the_log_with_it(store: Store, tmp_path: Path) -> None:
    folder, away = tmp_path / "log", tmp_path / "away"
    variables = {"KLAMM_DATABASE_URL": store.dsn, "KLAMM_DECISION_LOG_PATH": str(folder)}
    with over_socket(settings=variables) as service:
        service.ready()
        assert service.authorize(SUPER_USER, action("one")) == ["ALLOWED"]
        wait_until(lambda: service.metric("klamm_decision_log_lines_total") == 1, "the first line is written")
        folder.rename(away)
        folder.touch()
        assert service.authorize(SUPER_USER, action("two")) == ["ALLOWED"]
        wait_until(lambda: service.metric("klamm_decision_log_faults_total") > 1, "it can't be written")
        assert service.http.get("/readyz").status_code == 200
        folder.unlink()
        away.rename(folder)
        wait_until(lambda: service.metric("klamm_decision_log_lines_total") == 2, "it is written")
        assert service.stop() == 0
        assert sum("decision_log_not_writable" in line for line in service.lines) == 1
        assert sum("decision_log_writable_again" in line for line in service.lines) == 1
    assert sorted(line["resource_name"] for line in lines(folder)) == ["one", "two"]
    assert len(list(folder.iterdir())) == 2


def test_a_folder_that_can_not_be_used_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = subprocess.run(
        [str(Path(sys.executable).with_name("klamm")), "serve", "--port", "0", "--data-dir", str(tmp_path / "data")],
        cwd=ROOT,
        env={**os.environ, "KLAMM_DECISION_LOG_PATH": str(tmp_path / "file")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    hear(f"{done.stdout}\n{done.stderr}")
    assert done.returncode == 2
    assert "klamm serve: KLAMM_DECISION_LOG_PATH: can't make, lock and rename files in" in done.stderr
    assert not (tmp_path / "data").exists()
