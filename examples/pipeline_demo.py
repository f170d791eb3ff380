"""`make pipeline-demo`: the example company in a store of its own, its decisions, and the pipeline's jobs over both.

Everything goes through the public surface: `klamm serve`, REST, and `klamm pipeline JOB`.
"""

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.java import find_java
from examples.company import ADMIN, Company, candidate, company, questions

FOLDER = Path("build") / "pipeline-demo"
DECISIONS = 20_000
PAUSE_S = 0.7
"""Between two waves, so that the store has a history that can be seen."""

_KLAMM = str(Path(sys.executable).with_name("klamm"))
_STORE, _LOG, _HOME = FOLDER / "store", FOLDER / "decisions", FOLDER / "home"
_RESOURCES, _SERVICE_LOG = FOLDER / "resources.csv", FOLDER / "service.log"
_SERVING = re.compile(r"serving address=(\S+)")
_PATIENCE_S = 60.0
_CONTEXT = {"principal": ADMIN, "client_address": "127.0.0.1"}
_VARIABLES = {
    "KLAMM_SUPER_USERS": ADMIN,
    "KLAMM_CLUSTER_ID": "example-company",
    "KLAMM_AUDIT_LEVEL": "OFF",
    "KLAMM_LOG_FORMAT": "TEXT",
    "KLAMM_DRAIN_MS": "0",
    "KLAMM_DECISION_LOG_PATH": str(_LOG.resolve()),
    # The demo waits for the last file to be closed.
    "KLAMM_DECISION_LOG_ROTATE_MS": "2000",
}
_SPARK = ["--home", str(_HOME), "--driver-memory", "1g"]

Json = dict[str, Any]


class DemoError(Exception):
    """Why it can't go on, for whoever runs it."""


def main() -> int:
    """Runs it all. 0: the report is there; 1: a job or the service failed; 2: Java is missing; 130: Ctrl-C."""
    try:
        _say(f"Spark will run on {find_java(os.environ)}.")
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        _demo()
    except PipelineError as fault:
        _say(f"pipeline-demo: {fault}")
        return 2
    except (DemoError, httpx.HTTPError, OSError) as fault:
        _say(f"pipeline-demo: {fault}")
        return 1
    except KeyboardInterrupt:
        _say("\npipeline-demo: interrupted; nothing is left running")
        return 130
    return 0


def _demo() -> None:
    made_up = company()
    _write_inputs(made_up)
    with _service() as url, httpx.Client(base_url=url, timeout=_PATIENCE_S, trust_env=False) as http:
        _await_ready(http)
        decided = _live_through(http, made_up)
        _await_log(decided)
        store = ["--data-dir", str(_STORE)]
        named = ["--decisions", str(_LOG), "--resources", str(_RESOURCES)]
        # All of it is a minute old, and its service is started as it is by default.
        known = ["--min-days", "0", "--allow-everyone-if-no-acl-found", "false"]
        _job("nightly", *store, *named, *known, *_SPARK, expected=(0, 1))
    changes = ["--delete", str(FOLDER / "delete.json"), "--create", str(FOLDER / "create.json")]
    status, _ = _job("what-if", "--name", "tighten-customers", *changes, *_SPARK, expected=(0, 1))
    _say(
        "what-if exited with 1: the change breaks something, and CI would stop here."
        if status
        else "No decision flips."
    )
    _, told = _job("report", *_SPARK, expected=(0,))
    _say("\nThree things that the report says:")
    for line in told[:3]:
        _say(f"  - {line}")
    _say(f"\nThe report, to be opened in a browser: {(_HOME / 'report.html').resolve().as_uri()}")


def _write_inputs(made_up: Company) -> None:
    with _RESOURCES.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("resource_type", "resource_name"))
        writer.writerows(made_up.resources)
    for name, body in candidate().items():
        (FOLDER / f"{name}.json").write_text(json.dumps(body, indent=1), encoding="utf-8")


@contextmanager
def _service() -> Iterator[str]:
    """A `klamm serve` on a free port, with a store of its own; stopped at the end, whatever ends it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KLAMM_")}
    command = [_KLAMM, "serve", "--port", "0", "--data-dir", str(_STORE)]
    with _SERVICE_LOG.open("w", encoding="utf-8") as log:
        # A session of its own: Ctrl-C reaches the demo only, which then stops it in order.
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, env={**clean, **_VARIABLES}, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield _address(process)
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes]) -> str:
    _say(f"Starting klamm serve with an empty store (its log: {_SERVICE_LOG}).")
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        found = _SERVING.search(_SERVICE_LOG.read_text(encoding="utf-8"))
        if found is not None:
            return found[1]
        time.sleep(0.1)
    raise DemoError(f"klamm serve did not start; {_SERVICE_LOG} says why")


def _await_ready(http: httpx.Client) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while http.get("/readyz").status_code != httpx.codes.OK:
        if time.monotonic() > deadline:
            raise DemoError(f"the service was not ready within {_PATIENCE_S:g} s; {_SERVICE_LOG} says why")
        time.sleep(0.1)


def _live_through(http: httpx.Client, made_up: Company) -> int:
    """Wave by wave, ACLs come and go, and whoever is there goes on asking. How many decisions were made."""
    decided = 0
    each_time = -(-DECISIONS // len(made_up.waves))
    for number, wave in enumerate(made_up.waves):
        token = ""
        if wave.bindings:
            token = _created(_post(http, "/v1/acls", {"context": _CONTEXT, "bindings": wave.bindings}))
        if wave.filters:
            token = _post(http, "/v1/acls/delete", {"context": _CONTEXT, "filters": wave.filters})["token"]
        asked = 0
        for client, actions in questions(made_up, number, each_time):
            context = {"principal": client.principal, "client_address": client.address}
            _post(http, "/v1/authorize", {"context": context, "actions": actions, "at_least": token})
            asked += len(actions)
        decided += asked
        time.sleep(PAUSE_S)
        _say(f"  {wave.title}: {len(wave.bindings)} ACLs, {asked:,} decisions")
    count = http.get("/v1/acls/count").json()["acl_count"]
    _say(f"The store holds {count:,} ACLs; {decided:,} decisions were made.")
    return decided


def _created(answer: Json) -> str:
    refused = [each for each in answer["results"] if each["error_code"]]
    if refused:
        raise DemoError(f"the service refused an ACL of the example: {refused[0]}")
    return str(answer["token"])


def _post(http: httpx.Client, path: str, body: Json) -> Json:
    answer = http.post(path, json=body)
    if answer.status_code != httpx.codes.OK:
        raise DemoError(f"{path} answered {answer.status_code}: {answer.text[:300]}")
    value: Json = answer.json()
    return value


def _await_log(decided: int) -> None:
    """Until every decision stands in a closed file of the log."""
    deadline = time.monotonic() + _PATIENCE_S
    while sum(path.read_bytes().count(b"\n") for path in _LOG.glob("decisions-*.jsonl")) < decided:
        if time.monotonic() > deadline:
            raise DemoError(f"the decision log in {_LOG} lacks decisions; {_SERVICE_LOG} says why")
        time.sleep(0.2)


def _job(name: str, *arguments: str, expected: tuple[int, ...]) -> tuple[int, list[str]]:
    """Runs one job with its output shown; its exit code and the lines of its result."""
    _say(f"\n$ klamm pipeline {shlex.join([name, *arguments])}")
    lines: list[str] = []
    clean = {key: value for key, value in os.environ.items() if not key.startswith("KLAMM_") or "JDBC_JAR" in key}
    with subprocess.Popen(  # noqa: S603 - our own command
        [_KLAMM, "pipeline", name, *arguments], env=clean, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip("\n"))
                _say(lines[-1])
        except KeyboardInterrupt:
            # A terminal has told it as well; whoever told the demo only wants it gone, too.
            _stop(process)
            raise
    if process.returncode not in expected or not lines:
        raise DemoError(f"{name} exited with {process.returncode}")
    return process.returncode, lines


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
