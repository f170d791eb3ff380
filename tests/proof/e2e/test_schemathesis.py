"""openapi.json taken at its word: schemathesis makes requests of it, good and bad ones, and holds every answer to it.

Without credentials, with those of everybody's kind, and where nobody needs any.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest
import schemathesis
from schemathesis.config import (
    ChecksConfig,
    CoveragePhaseConfig,
    FuzzingPhaseConfig,
    GenerationConfig,
    PhasesConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
    StatefulPhaseConfig,
)
from schemathesis.engine import StopReason, events, from_schema

from tests.callers import Corp, write_configuration
from tests.klamm import LIMIT_S, ROOT, SUPER_USER, Process, acl, context, over_socket

SEED = 4_400_005
"""Of all that is drawn: a failure comes again."""
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
]
DOCUMENT = ROOT / "openapi.json"
_LONG_MS = 60_000
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
EXPECTED = {None: {200, 401}, "anyone": {200, 400, 403}, "root": {200, 400, 404}, "prometheus": {200, 403}}
"""By the caller, what comes among other statuses: one of each role, root a super user's; None shows no credentials."""


class Guarded(NamedTuple):
    """A service that knows callers, and the token of each."""

    service: Process
    tokens: Mapping[str, str]


class Run(NamedTuple):
    """What came of a run."""

    asked: Counter[str]
    """By operation."""
    phases: Counter[str]
    statuses: Counter[int]
    failures: list[str]


def run(service: Process, an_id: Callable[[], str], token: str | None = None) -> Run:
    """Every operation with what its schema gives: examples, edges, and some cases drawn, valid and invalid."""
    project = ProjectConfig(
        base_url=service.url,
        headers={} if token is None else {"Authorization": f"Bearer {token}"},
        continue_on_failure=True,
        request_timeout=LIMIT_S,
        checks=_checks(),
        generation=GenerationConfig(max_examples=60, deterministic=False, no_shrink=True, database="none"),
        phases=PhasesConfig(
            # Methods that no path knows are 405 by RFC 9110; a document lists what there is.
            coverage=CoveragePhaseConfig(unexpected_methods=set()),
            fuzzing=FuzzingPhaseConfig(),
            stateful=StatefulPhaseConfig(enabled=False),
        ),
    )
    config = SchemathesisConfig(seed=SEED, projects=ProjectsConfig(default=project))
    # A stream has no end; tests/gate/e2e/test_watch.py is about it.
    schema = schemathesis.openapi.from_path(DOCUMENT, config=config).exclude(operation_id="watch")
    found = Run(Counter(), Counter(), Counter(), [])
    with hooked(worth_making(an_id)):
        for event in from_schema(schema).execute():
            _note(event, found)
    asked, statuses = sum(found.asked.values()), dict(sorted(found.statuses.items()))
    print(f"seed {SEED}: {asked} requests, {dict(found.phases)}, {statuses}")
    return found


def worth_making(an_id: Callable[[], str]) -> Callable[..., None]:
    """A hook that leaves what is badly formed alone, and makes of the rest requests that lead somewhere.

    They speak for the super user, as nobody drawn may do much; ask for the ACL that there is, as no other id can be
    guessed; and give updates time, as 504 is what 0 ms ask for.
    """

    def before_call(_: schemathesis.HookContext, case: "schemathesis.Case[Any]", **__: object) -> None:
        if _UUID.fullmatch(str(case.path_parameters.get("id"))):
            case.path_parameters["id"] = an_id()
        body: Any = case.body
        if not isinstance(body, dict):
            return
        asking, timeout_ms = body.get("context"), body.get("timeout_ms")
        if isinstance(asking, dict) and ":" in str(asking.get("principal", "")):
            body = {**body, "context": {**asking, "principal": SUPER_USER}}
        if type(timeout_ms) is int and 0 <= timeout_ms < _LONG_MS:
            body = {**body, "timeout_ms": _LONG_MS}
        case.body = body

    return before_call


@contextmanager
def hooked(before_call: Callable[..., None]) -> Iterator[None]:
    schemathesis.hook(before_call)
    try:
        yield
    finally:
        schemathesis.hooks.unregister(before_call)


def _checks() -> ChecksConfig:
    checks = ChecksConfig()
    checks.update(included_check_names=CHECKS)
    return checks


def _note(event: events.EngineEvent, found: Run) -> None:
    if isinstance(event, events.FatalError):
        raise event.exception
    if isinstance(event, events.NonFatalError):
        found.failures.append(f"{event.label}: {event.value!r}")
    if isinstance(event, events.EngineFinished) and event.stop_reason is not StopReason.COMPLETED:
        found.failures.append(f"stopped: {event.stop_reason}")
    if not isinstance(event, events.ScenarioFinished):
        return
    for interaction in event.recorder.interactions.values():
        found.asked[event.recorder.label] += 1
        found.phases[event.phase.name] += 1
        found.statuses[0 if interaction.response is None else interaction.response.status_code] += 1
    for nodes in event.recorder.checks.values():
        for node in nodes:
            if node.failure_info is not None:
                failure = node.failure_info.failure
                found.failures.append(
                    f"{event.recorder.label}: {node.name}: {failure}\n{node.failure_info.code_sample}"
                )


def operations() -> int:
    paths = json.loads(DOCUMENT.read_text())["paths"]
    return sum(len(methods) for path, methods in paths.items() if path != "/v1/watch")


def an_acl(service: Process, **headers: str) -> str:
    """The id of one that there is, made again if it was deleted."""
    body = {"context": context(), "bindings": [acl("orders")]}
    created: str = service.http.post("/v1/acls", json=body, headers=headers).json()["results"][0]["id"]
    return created


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    tokens = write_configuration(folder, Corp())
    with over_socket("--data-dir", str(folder / "data"), folder=folder) as service:
        yield Guarded(service.ready(), tokens)


@pytest.mark.parametrize("caller", [None, "anyone", "root", "prometheus"])
def test_a_guarded_service_answers_as_documented(guarded: Guarded, caller: str | None) -> None:
    an_id = partial(an_acl, guarded.service, authorization=f"Bearer {guarded.tokens['root']}")
    found = run(guarded.service, an_id, None if caller is None else guarded.tokens[caller])
    assert found.failures == []
    assert len(found.asked) == operations()
    assert set(found.statuses) >= EXPECTED[caller]
    assert found.statuses[401] == 0 or caller is None


def test_an_open_service_answers_as_documented(service: Process) -> None:
    found = run(service, partial(an_acl, service))
    assert found.failures == []
    assert len(found.asked) == operations()
    assert set(found.statuses) >= {200, 400, 404}
    assert found.statuses[401] == 0
