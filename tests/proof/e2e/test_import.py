"""`klamm import` as a process of its own: beside a replica, killed, interrupted, in an outage, from bad files."""

import gzip
import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.klamm import LIMIT_S, ROOT, Json, acl, action, context, over_socket, replica, wait_until
from tests.planted import hear, plant_password
from tests.postgres import Postgres, Store
from tests.proof.e2e.history import Seven, offset_of, seven_of
from tests.proof.e2e.outside import Outside
from tests.surroundings import without_ours

Process = subprocess.Popen[bytes]

COUNT = 12_000
"""More than one call of createAcls may bring."""
FEW = 3_000


def start(*arguments: str, **environment: str) -> Process:
    clean = without_ours()
    plant_password(environment.get("KLAMM_DATABASE_URL", ""))
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("klamm")), "import", *arguments],
        cwd=ROOT,
        env={**clean, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process: Process, given: bytes | None = None) -> tuple[int, str, str]:
    """Its exit code, and what it said."""
    out, err = process.communicate(given, LIMIT_S)
    hear(out.decode())
    hear(err.decode())
    return process.returncode, out.decode(), err.decode()


def summary(out: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z ]+): (\S+)$", out, re.MULTILINE))


def counts(out: str) -> tuple[int, int, int]:
    """Created, already there, repeated in the file."""
    said = summary(out)
    return int(said["created"]), int(said["already there"]), int(said["repeated in the file"])


def bindings(count: int) -> list[Json]:
    draw = random.Random(count)
    return [
        acl(f"topic-{at:05d}", f"User:u{draw.randrange(100)}", draw.choice(["READ", "WRITE", "ALL"]))
        for at in range(count)
    ]


def fields(each: Json) -> Seven:
    return seven_of({"pattern_type": "LITERAL", "host": "*", **each})


def lines(some: Sequence[Json]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in some)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "acls.jsonl"


@pytest.fixture
def outside(migrated_database_url: str) -> Iterator[Outside]:
    with Outside(migrated_database_url) as outside:
        yield outside


def stored(outside: Outside) -> int:
    return int(outside.rows("SELECT count(*) FROM acl")[0][0])


def test_a_replica_follows_an_import_without_loading_anew(
    path: Path, migrated_database_url: str, outside: Outside
) -> None:
    some = bindings(COUNT)
    path.write_bytes(lines(some))
    with replica(migrated_database_url) as running:
        running.ready()
        own = running.create({**some[7]}, acl("own"))

        code, out, err = ended(start(str(path), "--actor", "User:loader", KLAMM_DATABASE_URL=migrated_database_url))

        assert (code, counts(out)) == (0, (COUNT - 1, 1, 0)), err
        token = summary(out)["token"]
        assert offset_of(token) == COUNT + 1
        asked = action(some[0]["resource_name"], "DESCRIBE")
        assert running.authorize(some[0]["principal"], asked, at_least=token) == ["ALLOWED"]
        assert running.http.get("/v1/acls/count").json() == {"acl_count": COUNT + 1}
        assert running.metric("klamm_image_loads_total") == 1
        found = {seven_of(each): each["id"] for each in running.acls()}
    assert found == outside.acls() == outside.history().acls
    assert found[fields(some[7])] == own["results"][0]["id"]
    assert {record.actor for record in outside.records()[2:]} == {"User:loader"}


def test_killed_again_and_again_it_carries_on_until_all_is_in(
    path: Path, migrated_database_url: str, outside: Outside
) -> None:
    some = bindings(FEW)
    path.write_bytes(lines([*some, *some[:500]]))
    for kill in range(1, 4):
        process = start(str(path), "--batch", "25", KLAMM_DATABASE_URL=migrated_database_url)
        wait_until(lambda mark=kill * FEW // 5: stored(outside) >= mark, "some are in")  # type: ignore[misc]  # bound
        process.kill()
        assert ended(process)[0] == -signal.SIGKILL
    before = stored(outside)
    assert 0 < before < FEW

    code, out, err = ended(start(str(path), KLAMM_DATABASE_URL=migrated_database_url))
    again = ended(start(str(path), KLAMM_DATABASE_URL=migrated_database_url))

    assert code == 0, err
    created, there, repeated = counts(out)
    assert created + there + repeated == FEW + 500
    assert created <= FEW - before
    history = outside.history()
    assert history.last_offset == FEW
    assert outside.acls() == history.acls
    assert history.acls.keys() == set(map(fields, some))
    assert (again[0], counts(again[1])) == (0, (0, FEW + 500, 0))
    assert summary(again[1])["token"] == summary(out)["token"]


def test_ctrl_c_ends_it_after_the_batch_under_way(path: Path, migrated_database_url: str, outside: Outside) -> None:
    path.write_bytes(lines(bindings(FEW)))
    process = start(str(path), "--batch", "12", KLAMM_DATABASE_URL=migrated_database_url)
    wait_until(lambda: stored(outside) > 0, "some are in")
    process.send_signal(signal.SIGINT)

    code, out, err = ended(process)

    assert (code, out) == (130, "")
    history = outside.history()
    assert 0 < history.last_offset < FEW
    assert f"klamm import: interrupted; {history.last_offset:,} of the 3,000 ACLs in `{path}` are in the store; " in err
    assert outside.acls() == history.acls


@pytest.mark.parametrize("to_be_stopped", [False, True])
def test_postgresql_may_go_and_come_back(path: Path, store: Store, *, to_be_stopped: bool) -> None:
    some = bindings(FEW)
    path.write_bytes(lines(some))
    process = start(str(path), "--batch", "12", KLAMM_DATABASE_URL=store.dsn)
    with Outside(store.dsn) as outside:
        wait_until(lambda: stored(outside) > 0, "some are in")
    if to_be_stopped:
        store.server.stop()
        process.send_signal(signal.SIGTERM)
        code, _, err = ended(process)
        assert code == 130
        assert "run the same command again to resume" in err
        store.server.start()
        process = start(str(path), KLAMM_DATABASE_URL=store.dsn)
    else:
        restart(store.server)

    code, out, err = ended(process)

    assert (code, sum(counts(out))) == (0, FEW), err
    with Outside(store.dsn) as outside:
        assert outside.acls() == outside.history().acls
        assert outside.acls().keys() == set(map(fields, some))


def restart(server: Postgres) -> None:
    server.stop()
    server.start()


def test_a_bad_file_changes_nothing(path: Path, migrated_database_url: str, outside: Outside) -> None:
    some = bindings(FEW)
    some[1_999] = {**some[1_999], "operation": "Read"}
    some[2_499] = {**some[2_499], "ressource": "x"}
    path.write_bytes(lines(some))

    code, out, err = ended(start(str(path), KLAMM_DATABASE_URL=migrated_database_url))

    assert (code, out) == (2, "")
    assert err.splitlines()[0] == "klamm import: nothing was written; fix this first:"
    assert err.splitlines()[1] == (
        f"{path}:2000: `operation`: `Read` is not a value that Kafka knows; did you mean READ?"
    )
    assert err.splitlines()[2].startswith(f"{path}:2500: `ressource`: there is no such field; ")
    assert outside.head().last_offset == 0


def test_standard_input_and_bodies_of_create_acls_are_taken(migrated_database_url: str, outside: Outside) -> None:
    some = bindings(30)
    body = json.dumps({"context": context(), "bindings": some[10:]}, indent=2).encode()

    of_lines = ended(start("-", KLAMM_DATABASE_URL=migrated_database_url), lines(some[:20]))
    of_a_body = ended(start("-", "--quiet", KLAMM_DATABASE_URL=migrated_database_url), gzip.compress(body))
    bad = ended(start("-", KLAMM_DATABASE_URL=migrated_database_url), b'{"bindings": [\n{"host": 1}]}')

    assert (of_lines[0], counts(of_lines[1])) == (0, (20, 0, 0))
    assert (of_a_body[0], counts(of_a_body[1]), of_a_body[2]) == (0, (10, 10, 0), "")
    assert bad[0] == 2
    assert "<standard input>:2: `host`: the value is not text; write it in quotes" in bad[2].splitlines()
    assert outside.history().acls.keys() == set(map(fields, some))
    assert all(record.actor.startswith("Import:") for record in outside.records())


def test_a_database_that_refuses_is_told_in_one_line(path: Path, database_url: str) -> None:
    path.write_bytes(lines(bindings(3)))

    code, out, err = ended(start(str(path), KLAMM_DATABASE_URL=database_url))

    assert (code, out, err.count("\n")) == (1, "", 1)
    assert ": the store's tables are missing; run `klamm migrate`; 0 of the 3 ACLs" in err


def test_the_embedded_store_takes_an_import_while_no_service_runs_on_it(path: Path, tmp_path: Path) -> None:
    some = bindings(2_000)
    path.write_bytes(lines(some))
    folder = ["--data-dir", str(tmp_path / "data")]
    with over_socket(*folder) as service:
        service.ready().create(some[0])
        code, _, err = ended(start(str(path), *folder))
        assert code == 2
        assert "is in use by the Klamm process" in err
        # Another folder would be another store.
        assert err.endswith("; or add --klamm URL to import into the service that runs there\n")

    code, out, err = ended(start(str(path), *folder))

    assert (code, counts(out)) == (0, (1_999, 1, 0)), err
    with over_socket(*folder) as service:
        assert service.ready().http.get("/v1/acls/count").json() == {"acl_count": 2_000}
