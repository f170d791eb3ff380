"""Lists of the whole store at one token while somebody writes between every two of their calls."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.client import export
from app.client.assertions import command as test_command
from app.client.http.replies import ServiceError
from app.client.http.service import Service as Client
from app.client.plan import apply
from app.client.plan import command as plan_command
from app.client.reach import what, who
from app.client.undo import command as undo
from tests.client_runs import Run, run
from tests.klamm import SUPER_USER, Json, Process, acl, context, over_socket, replica
from tests.postgres import Postgres

ACLS = 3_000
READS = ("/v1/acls/search", "/v1/who-can", "/v1/what-can", "/v1/configs")


@pytest.fixture(scope="module")
def primary(postgres: Postgres) -> Iterator[Process]:
    with replica(postgres.new_store()) as running:
        running.ready().create(*(acl(f"t-{number:04}", "User:many") for number in range(ACLS)))
        running.create(*(acl("shared", f"User:s-{number:04}") for number in range(1_500)))
        yield running


@pytest.fixture(params=["store", "follower"])
def company(request: pytest.FixtureRequest, primary: Process) -> Iterator[Process]:
    """A service with the ACLs: that of the store, or one that follows it."""
    if request.param == "store":
        yield primary
        return
    with over_socket("--upstream", primary.url) as follower:
        yield follower.ready()


@pytest.fixture
def writer(primary: Process, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Writes before each call that reads; has the tokens of its writes."""
    tokens: list[str] = []
    really, get = Client.post, Client.get

    def write() -> None:
        name = f"t-{len(tokens) % ACLS:04}"
        primary.delete({"resource_name": name, "principal": "User:many"})
        primary.create(acl(name, "User:many", owner=f"w{len(tokens)}"))
        tokens.append(str(primary.create(acl(f"a-{len(tokens)}", "User:busy"))["token"]))

    def post(client: Client, path: str, *words: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it takes
        if path in READS:
            write()
        return really(client, path, *words, **named)

    def get_(client: Client, path: str) -> Any:  # noqa: ANN401 - as above
        write()
        return get(client, path)

    with monkeypatch.context() as patch:
        patch.setattr(Client, "post", post)
        patch.setattr(Client, "get", get_)
        yield tokens
    primary.delete({"principal": "User:busy"})


def klamm(command: Any, service: Process, *words: str) -> Run:  # noqa: ANN401 - a module
    return run(command, [*words, "--klamm", service.url, "--as", SUPER_USER])


def test_an_export_is_of_one_token(
    company: Process, primary: Process, writer: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    exported = klamm(export, company).text
    _, _, token = capsys.readouterr().err.strip().rpartition(" ")
    assert writer
    quiet = {each["resource_name"]: each["owner"] for each in _all_at(primary, token)}
    listed = {each["resource_name"]: each.get("owner") for each in map(json.loads, exported.splitlines())}
    assert listed == quiet
    assert len(exported.splitlines()) >= ACLS + 1_500


def _all_at(service: Process, token: str) -> list[Json]:
    found: list[Json] = []
    asked: Json = {"context": context(), "filter": {}, "limit": 1_000, "at": token}
    while True:
        page = service.post("/v1/acls/search", asked)
        found += page["acls"]
        if page["next_cursor"] is None:
            return found
        asked["cursor"] = page["next_cursor"]


def test_plans_tests_and_who_and_what_get_their_lists(company: Process, writer: list[str], tmp_path: Path) -> None:
    wanted, tests = tmp_path / "acls.jsonl", tmp_path / "tests.yaml"
    wanted.write_text(json.dumps(acl("new")) + "\n")
    tests.write_text("tests:\n  - User:many may READ topic:t-2999\n")
    assert klamm(plan_command, company, str(wanted)).code == 0
    assert len(klamm(who, company, "topic:shared", "--output", "json").json["rows"]) >= 1_500
    assert len(klamm(what, company, "User:many", "--output", "json").json["rows"]) >= ACLS
    assert klamm(test_command, company, str(tests)).code == 0
    assert len(writer) > 4


def test_apply_and_undo_come_as_far_as_their_guard(primary: Process, writer: list[str], tmp_path: Path) -> None:
    """The guard covers the whole store: what a writer changes after the plan still refuses it."""
    wanted = tmp_path / "acls.jsonl"
    wanted.write_text(json.dumps(acl("new")) + "\n")
    token = str(primary.create(acl("undone"))["token"])
    assert klamm(undo, primary, token, "--save", str(tmp_path / "undo.json")).code == 0
    with pytest.raises(ServiceError, match="somebody else has changed the ACLs"):
        klamm(apply, primary, str(wanted), "--yes")
    assert writer
