"""`klamm serve --workers N`: whole replicas of their own behind one port, with one face."""

import re
import signal
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.asking_again import AskingAgain, client_of
from tests.klamm import LIMIT_S, SUPER_USER, Json, Process, acl, action, context, over_socket, wait_until
from tests.postgres import Frozen, Store, processes_in, sql
from tests.proof.e2e.asking import Asking
from tests.proof.e2e.workers import (
    Group,
    LockedTable,
    Probing,
    asked,
    by_worker,
    connections,
    is_there,
    kill,
    metrics,
    pids,
    ready,
    refused,
    service_of,
    starts,
    worker_of,
)

QUESTION: Json = {"context": context("User:alice"), "actions": [action("orders"), action("payments")]}
ANSWER = "ALLOWED,DENIED"
OTHER_RECORDS = """WITH said AS MATERIALIZED (SELECT set_config('klamm.epoch_diverged', 'true', true) AS so)
UPDATE acl_head SET epoch = gen_random_uuid() FROM said WHERE so = 'true' RETURNING 1"""
"""An epoch of a store whose records are said to be others than those that were seen: all replicas load again."""
AUDIT_LINE = re.compile(r"\[[\d ,:-]+\] INFO Principal = User:alice is Denied .* \(kafka\.authorizer\.logger\)")


def test_connections_spread_over_the_workers_and_each_sees_what_another_has_written(store: Store) -> None:
    with ready(service_of(2, store.dsn), 2) as service, connections(service, 32) as clients:
        spread = Counter(worker_of(client, service) for client in clients)
        print(f"32 connections, one after the other: {dict(spread)}")
        assert min(spread[1], spread[2]) >= 4
        for name, writer in (("orders", clients[0]), ("payments", clients[-1])):
            token = writer.post("/v1/acls", json={"context": context(), "bindings": [acl(name)]}).json()["token"]
            question = {**QUESTION, "actions": [action(name)], "at_least": token}
            assert {asked(client, question) for client in clients} == {"ALLOWED"}


def test_who_signs_out_has_signed_out_of_every_worker_also_of_one_that_is_started_later(store: Store) -> None:
    with ready(service_of(2, store.dsn), 2) as service, connections(service, 16) as clients:
        assert {worker_of(client, service) for client in clients} == {1, 2}
        page = clients[0].get("/console").text
        fields = {"form_token": re.findall(r'name="form_token" value="(\w+)"', page)[0]}
        clients[0].post("/console/act-as", data={**fields, "principal": "User:carol"})
        copied = {"cookie": f"klamm_session={clients[0].cookies['klamm_session']}"}
        seen = [client.get("/console", headers=copied).text for client in clients[1:]]
        assert all("User:carol" in each for each in seen)
        fields = {"form_token": re.findall(r'name="form_token" value="(\w+)"', seen[0])[0]}
        assert clients[0].post("/console/sign-out", data=fields).status_code == 303
        for client in clients[1:]:
            assert "User:carol" not in client.get("/console", headers=copied).text
        kill(pids(service)[1])
        wait_until(lambda: by_worker(metrics(service), "klamm_worker_up") == {1: 1, 2: 1}, "it is started again")
        ready(service, 2)
        with connections(service, 16) as newcomers:
            assert {worker_of(client, service) for client in newcomers} == {1, 2}
            for client in newcomers:
                assert "User:carol" not in client.get("/console", headers=copied).text


def test_a_worker_that_dies_breaks_its_own_connections_only_and_takes_new_ones_when_it_has_loaded(store: Store) -> None:
    with ready(service_of(2, store.dsn), 2) as service, connections(service, 16) as clients:
        service.create(acl("orders"))
        wait_until(lambda: {asked(each, QUESTION) for each in clients} == {ANSWER}, "both workers know the ACL")
        survivors = [client for client in clients if worker_of(client, service) == 2]
        doomed = pids(service)[1]
        with Probing(service) as probing, Asking(service, QUESTION, ANSWER.split(","), threads=8) as asking:
            with LockedTable(store.dsn, "acl"):
                kill(doomed)
                wait_until(lambda: pids(service)[1] != doomed, "it is started again")
                wait_until(lambda: by_worker(metrics(service), "klamm_worker_up") == {1: 1, 2: 1}, "it reports")
                assert {asked(client, QUESTION) for client in survivors} == {ANSWER}
                with connections(service, 16) as newcomers:
                    assert {worker_of(client, service) for client in newcomers} == {2}
                told = "[+]worker/1 ok: restarting, takes no connections yet"
                wait_until(lambda: told in verbose(service), "it is told")
            wait_until(lambda: takes_connections(service, 1), "it takes connections")
        # Who was on its connections found them broken; nobody got a wrong answer, nor one from a worker half started.
        assert [fault for fault in asking.wrong if fault[0].isdecimal()] == []
        assert asking.answers > len(asking.wrong)
        assert probing.refusals == []
        assert probing.answers > 0
        assert not is_there(doomed)
        assert any("worker_ended worker=1" in line and "SIGKILL" in line for line in service.lines)
        assert metrics(service)['klamm_worker_restarts_total{worker="1"}'] == 1


def verbose(service: Process) -> str:
    with client_of(service.url) as newcomer:
        return newcomer.get("/readyz?verbose").text


def takes_connections(service: Process, worker: int) -> bool:
    with connections(service, 4) as clients:
        return worker in {worker_of(client, service) for client in clients}


def test_the_last_worker_takes_connections_even_if_it_can_not_load(closed: Store) -> None:
    with service_of(2, closed.dsn) as service:
        service.http.close()
        for pid in pids(service).values():
            kill(pid)
        wait_until(lambda: len(starts(service)) == 4, "both are started again")
        with connections(service, 2) as clients:
            assert [client.get("/readyz").status_code for client in clients] == [503, 503]
            assert {asked(client, QUESTION) for client in clients} == {"503"}
            body = {**QUESTION, "context": context(SUPER_USER)}
            assert {asked(client, body) for client in clients} == {"ALLOWED,ALLOWED"}


def test_all_have_to_be_ready_and_they_load_one_after_the_other(store: Store) -> None:
    """A lock makes their loads wait in PostgreSQL, where they can be counted; polls do not read this table."""
    with LockedTable(store.dsn, "config") as table, service_of(3, store.dsn) as service:
        never_two_wait(service, table)
        assert service.http.get("/readyz").status_code == 503
        wait_until(lambda: "[-]worker/" in verbose(service), "the others are told")
        assert verbose(service).count("not loaded") == 1
        with connections(service, 8) as clients:
            assert {asked(client, QUESTION) for client in clients} == {"503"}
        table.release()
        ready(service, 3).create(acl("orders"))
        with connections(service, 8) as clients:
            table.lock()
            sql(store.dsn, OTHER_RECORDS)
            never_two_wait(service, table)
            wait_until(lambda: {asked(client, QUESTION) for client in clients} == {ANSWER}, "all answer as before")
            table.release()
            wait_until(lambda: metrics(service)["klamm_image_loads_total"] == 6, "all have loaded again")
        assert service.create(acl("payments"))["results"][0]["created"]


def never_two_wait(service: Process, table: LockedTable) -> None:
    wait_until(lambda: table.waiting() == 1, "one load waits for the lock")
    until = time.monotonic() + 1
    while time.monotonic() < until:
        assert table.waiting() <= 1, service.url


def test_metrics_are_sums_over_the_workers_that_never_fall_and_gauges_of_each(store: Store) -> None:
    with ready(service_of(2, store.dsn), 2) as service, connections(service, 8, spread_over=2) as clients:
        token = service.create(acl("orders"))["token"]
        question = {**QUESTION, "at_least": token}
        assert {asked(client, question) for client in clients for _ in range(10)} == {ANSWER}
        count = 10 * len(clients)
        before = metrics_of(service, {1: 1, 2: 1})
        refused = before.get('klamm_http_requests_total{operation="authorize",status="4xx"}', 0)
        assert before['klamm_http_requests_total{operation="authorize",status="2xx"}'] == count
        assert before['klamm_http_request_duration_seconds_count{operation="authorize"}'] == count + refused
        assert before['klamm_http_request_duration_seconds_bucket{le="+Inf",operation="authorize"}'] == count + refused
        assert before['klamm_decisions_total{result="ALLOWED",rule="MatchingAcl"}'] == count
        assert before["klamm_workers"] == 2
        assert by_worker(before, "klamm_feed_offset") == {1: 1, 2: 1}
        assert by_worker(before, "klamm_acl_count") == {1: 1, 2: 1}
        assert 'klamm_build_info{version="0.1.0"}' in before

        with Frozen([pids(service)[1]]):
            began_at = time.monotonic()
            while_frozen = metrics_of(service, {1: 0, 2: 1})
            wait_until(lambda: "[-]worker/1 failed: no answer" in verbose(service), "it is told")
            print(f"metrics and readiness beside a frozen worker: {time.monotonic() - began_at:.2f} s")
        assert set(by_worker(while_frozen, "klamm_feed_offset")) == {2}
        not_fallen(before, while_frozen)
        ready(service, 2)
        kill(pids(service)[1])
        wait_until(lambda: len(starts(service)) == 3, "it is started again")
        not_fallen(before, metrics(service))
        ready(service, 2)


def metrics_of(service: Process, up: dict[int, int]) -> dict[str, float]:
    """The metrics of those that are up. On a busy machine one may not answer in time."""
    pages: list[dict[str, float]] = []

    def are_up() -> bool:
        pages.append(metrics(service))
        return by_worker(pages[-1], "klamm_worker_up") == up

    wait_until(are_up, f"{up} are up")
    return pages[-1]


def not_fallen(before: dict[str, float], after: dict[str, float]) -> None:
    counters = [name for name in before if re.search(r"_(total|bucket|seconds_(count|sum))($|{)", name)]
    assert len(counters) > 50
    assert [name for name in counters if after[name] < before[name]] == []


def test_sigterm_lets_every_request_end_on_all_workers(tmp_path: Path) -> None:
    service = ready(embedded(tmp_path, 2), 2)
    service.create(acl("orders"))
    everybody = list(pids(service).values())
    with Asking(service, QUESTION, ANSWER.split(","), threads=4) as asking:
        wait_until(lambda: asking.answers > 200, "answers flow")
        assert service.stop() == 0
    assert [fault for fault in asking.wrong if fault[0].isdecimal()] == []
    assert len(everybody) == 2
    assert not any(map(is_there, everybody))
    assert processes_in(tmp_path) == []
    assert [line for line in service.lines if "ERROR" in line or "WARN" in line or "Traceback" in line] == []


def embedded(folder: Path, count: int) -> Process:
    return over_socket("--workers", str(count), "--data-dir", str(folder / "data"))


def test_nothing_outlives_a_sigkill_of_the_supervisor(tmp_path: Path) -> None:
    service = ready(embedded(tmp_path, 2), 2)
    everybody = list(pids(service).values())
    for pid in everybody:
        assert "postgresql://" not in Path(f"/proc/{pid}/cmdline").read_text()
        assert "postgresql://" not in Path(f"/proc/{pid}/environ").read_text()
    with Frozen(everybody[:1]):
        service.process.kill()
        wait_until(lambda: not any(map(is_there, everybody)), "the workers are gone")
    assert service.stop() == -signal.SIGKILL
    wait_until(lambda: processes_in(tmp_path) == [], "PostgreSQL is gone")
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", int(service.url.rpartition(":")[2])))
    assert "postgresql://" not in "\n".join(service.lines)


def test_ctrl_c_ends_all_of_it_quietly_whenever_it_comes(store: Store) -> None:
    for delay_s, impatient in ((0.0, True), (0.1, False), (0.3, True), (1.5, True)):
        with Group(["--workers", "2"], {"KLAMM_DATABASE_URL": store.dsn}) as group:
            group.wait_for("worker_started worker=1")
            time.sleep(delay_s)
            group.send(signal.SIGINT)
            if impatient:
                group.send(signal.SIGINT)
            code, said = group.end()
        assert code == 0, said
        assert "Traceback" not in said
        for pid in re.findall(r"worker_started worker=\d+ pid=(\d+)", said):
            assert not is_there(int(pid))


def test_a_signal_to_a_worker_that_still_starts_is_not_lost_and_ends_it_in_order(store: Store) -> None:
    with Group(["--workers", "2"], {"KLAMM_DATABASE_URL": store.dsn}) as group:
        for sig, delay_s in ((signal.SIGINT, 0.15), (signal.SIGTERM, 0.0)):
            pid = group.latest_worker()
            time.sleep(delay_s)
            kill(pid, sig)
            group.wait_for(f"pid={pid} by='exit code 0'")
        group.send(signal.SIGINT)
        code, said = group.end()
    assert code == 0
    assert "Traceback" not in said


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_a_start_that_is_broken_off(store: Store, sig: signal.Signals) -> None:
    for delay_s in (0.0, 0.2):
        with Group(["--workers", "3"], {"KLAMM_DATABASE_URL": store.dsn}) as group:
            group.wait_for("worker_started worker=3")
            time.sleep(delay_s)
            group.process.send_signal(sig)
            code, said = group.end()
        assert code == (0 if sig is signal.SIGTERM else -sig), said
        assert "Traceback" not in said
        workers = [int(pid) for pid in re.findall(r"worker_started worker=\d+ pid=(\d+)", said)]
        assert len(workers) == 3
        wait_until(lambda these=workers: not any(map(is_there, these)), "no worker is left")  # type: ignore[misc]  # the default binds the loop's variable


def test_workers_that_die_before_they_can_serve_end_the_service_with_a_reason(closed: Store) -> None:
    service = service_of(2, closed.dsn)
    killed: set[int] = set()

    def kill_the_next() -> bool:
        for _, pid in starts(service):
            if pid not in killed:
                killed.add(pid)
                kill(pid)
        return service.process.poll() is not None

    wait_until(kill_the_next, "the service gives up")
    assert service.stop() == 1
    assert re.fullmatch(
        "klamm serve: worker [12] ended 5 times in a row before it could serve, "
        "the last time by signal SIGKILL; see the log",
        service.lines[-1],
    )
    assert not any(is_there(pid) for _, pid in starts(service))


def test_a_worker_that_drains_alone_is_replaced(store: Store) -> None:
    with ready(service_of(2, store.dsn), 2) as service, Probing(service) as probing:
        service.create(acl("orders"))
        with connections(service, 8) as clients:
            wait_until(lambda: {asked(each, QUESTION) for each in clients} == {ANSWER}, "both workers know the ACL")
        with Asking(service, QUESTION, ANSWER.split(","), threads=4) as asking:
            kill(pids(service)[2], signal.SIGTERM)
            wait_until(lambda: len(starts(service)) == 3, "it is started again")
            wait_until(lambda: takes_connections(service, 2), "it takes connections")
        assert [fault for fault in asking.wrong if fault[0].isdecimal()] == []
    assert probing.refusals == []
    assert probing.answers > 0


def ask(client: httpx.Client, body: Json, times: int) -> None:
    for _ in range(times):
        reply = client.post("/v1/authorize", json=body)
        assert reply.status_code == httpx.codes.OK, reply.text


def test_audit_lines_of_several_workers_stay_whole(store: Store) -> None:
    names = [f"secret-{n}-{'x' * 300}" for n in range(500)]
    body = {"context": context("User:alice"), "actions": [action(name) for name in [*names, "y" * 30_000]]}
    with ready(service_of(2, store.dsn), 2) as service, connections(service, 8, spread_over=2) as clients:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda client: ask(client, body, 4), clients))
        wanted = 4 * len(clients) * len(body["actions"])
        wait_until(lambda: metrics(service)["klamm_audit_lines_written_total"] == wanted, "all lines are written")
    lines = [line for line in service.lines if "xxx" in line or "yyy" in line or "kafka.authorizer" in line]
    assert len(lines) == wanted
    assert [line for line in lines if not AUDIT_LINE.fullmatch(line)] == []


def test_a_unix_socket_is_shared_too(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "klamm.sock"
    with service_of(2, store.dsn, ["--uds", str(path)]) as service:
        assert service.url == f"unix:{path}"
        with httpx.Client(transport=AskingAgain(uds=str(path)), base_url="http://klamm", timeout=LIMIT_S) as client:
            wait_until(lambda: client.get("/readyz").text == "ok", "all are ready")
            wait_until(lambda: 'klamm_worker_up{worker="2"} 1.0' in client.get("/metrics").text, "both are up")
            kill(pids(service)[1])
            wait_until(lambda: asked(client, QUESTION) == "DENIED,DENIED", "the other one answers")
        assert service.stop() == 0
    assert not path.exists()


def test_a_port_that_is_taken_is_told_before_any_worker_starts(store: Store) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        told = refused(["--workers", "2", "--port", str(port)], store)
    assert f"klamm serve: can't serve on 127.0.0.1 port {port} (Address already in use);" in told
    assert "worker_started" not in told


def test_a_number_of_workers_that_is_none_is_refused_by_name(store: Store) -> None:
    assert "klamm serve: --workers: it should be less than or equal to 64" in refused(["--workers", "65"], store)
