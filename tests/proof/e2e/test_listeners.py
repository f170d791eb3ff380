"""start (KIP-504): which listeners of a broker may take connections, and when."""

import threading

from tests.bodies import ENDPOINT, refusal
from tests.klamm import Json, Process, replica
from tests.postgres import Store, sql
from tests.proof.e2e.probes import status, verbose
from tests.proof.e2e.questions import check_only_super_users_pass


def endpoints(*names: str) -> list[Json]:
    return [{**ENDPOINT, "listener_name": name} for name in names]


def start(service: Process, *names: str, **more: object) -> list[tuple[str, bool]]:
    reply = service.post("/v1/start", {"broker_id": 1, "endpoints": endpoints(*names), **more})
    return [(each["listener_name"], each["ready"]) for each in reply["listeners"]]


def test_early_start_listeners_are_ready_before_the_load_and_all_others_wait(closed: Store) -> None:
    with replica(closed.dsn, KLAMM_EARLY_START_LISTENERS="CONTROLLER, BROKER") as service:
        paths = [f"/readyz/{name}" for name in ("CONTROLLER", "BROKER", "PLAINTEXT", "controller")]
        assert [status(service, path) for path in paths] == [200, 200, 503, 503]
        assert start(service, "PLAINTEXT", "CONTROLLER", wait_ms=0) == [("PLAINTEXT", False), ("CONTROLLER", True)]
        # The longest wait there is, and none: all that is asked for is ready.
        assert start(service, "BROKER", "CONTROLLER", wait_ms=300_000) == [("BROKER", True), ("CONTROLLER", True)]
        assert start(service, wait_ms=300_000) == []
        assert "[+]listener/CONTROLLER ok" in verbose(service)
        assert "[-]listener/PLAINTEXT failed" in verbose(service)
        check_only_super_users_pass(service)
        # The wait ends, ready or not.
        assert start(service, "PLAINTEXT", wait_ms=200) == [("PLAINTEXT", False)]

        answers: list[Json] = []
        body = {"broker_id": 1, "endpoints": endpoints("PLAINTEXT", "BROKER"), "wait_ms": 60_000}
        waiting = threading.Thread(target=lambda: answers.append(service.post("/v1/start", body)))
        waiting.start()
        closed.server.start()
        waiting.join(60)
        assert [each["ready"] for each in answers[0]["listeners"]] == [True, True]
        assert answers[0]["cluster_id"] == sql(closed.dsn, "SELECT cluster_id FROM acl_head")[0][0]
        assert [status(service, path) for path in paths] == [200, 200, 200, 200]


def test_a_broker_of_another_cluster_is_told_so_as_soon_as_that_is_known(closed: Store) -> None:
    body = {"cluster_id": "another", "broker_id": 1, "endpoints": endpoints("PLAINTEXT"), "wait_ms": 0}
    with replica(closed.dsn) as service:
        assert service.post("/v1/start", body) == {
            "cluster_id": None,
            "listeners": [{"listener_name": "PLAINTEXT", "ready": False}],
        }
        statuses: list[int] = []
        waiting = threading.Thread(
            target=lambda: statuses.append(
                service.http.post("/v1/start", json={**body, "wait_ms": 60_000}).status_code,
            )
        )
        waiting.start()
        closed.server.start()
        waiting.join(60)
        assert statuses == [409]
        problem = refusal(service.http.post("/v1/start", json=body), 409, "INCONSISTENT_CLUSTER_ID")
        assert problem["error_code"] == 104
        known = sql(closed.dsn, "SELECT cluster_id FROM acl_head")[0][0]
        assert service.post("/v1/start", {**body, "cluster_id": known})["cluster_id"] == known
