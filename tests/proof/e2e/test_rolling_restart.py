"""Two replicas that are restarted one after the other under load, by a client that follows readiness."""

import os
import time

import pytest

from tests.klamm import Process, acl, action, replica, wait_until
from tests.postgres import Store
from tests.proof.e2e.rolling import DELAY_S, Endpoints, Sent, Traffic

PER_SECOND = 500
REQUESTS = int(os.environ.get("KLAMM_TEST_ROLLING_REQUESTS", "6000"))
RESTARTS = 4
DRAIN_MS = 2_500
LONGEST_S = 120.0 + REQUESTS / PER_SECOND * 4


def started(store: Store) -> Process:
    return replica(store.dsn, KLAMM_DRAIN_MS=str(DRAIN_MS))


@pytest.mark.timeout(int(LONGEST_S) + 180)
def test_a_rolling_restart_fails_no_request(store: Store) -> None:
    assert DRAIN_MS / 1000 > 2 * DELAY_S
    restarts = 0

    def enough(sent: Sent) -> bool:
        return sent.answers >= REQUESTS and restarts >= RESTARTS

    replicas = [started(store).ready() for _ in range(2)]
    replicas[0].create(acl("orders"))
    wait_until(lambda: replicas[1].authorize("User:alice", action("orders")) == ["ALLOWED"], "both know the ACL")
    began_at = time.monotonic()
    try:
        with Endpoints([each.url for each in replicas]) as endpoints:
            wait_until(lambda: len(endpoints.ready) == 2, "both are in use")
            with Traffic(endpoints, PER_SECOND, enough) as traffic:
                while not traffic.over:
                    assert time.monotonic() - began_at < LONGEST_S
                    slot = restarts % 2
                    assert replicas[slot].stop() == 0
                    replicas[slot] = started(store)
                    endpoints.set(slot, replicas[slot].url)
                    wait_until(lambda new=replicas[slot].url: new in endpoints.ready, "it is in use")  # type: ignore[misc]  # the default binds the loop's variable
                    restarts += 1
        sent, took_s = traffic.sent, time.monotonic() - began_at
        print(
            f"{sent.answers} requests in {took_s:.1f} s over {sent.connections} connections, {restarts} restarts, "
            f"{len(sent.created)} ACLs created, slowest {sent.slowest_s * 1000:.0f} ms, "
            f"{sent.asked_again} asked again; {dict(sent.by_replica)}"
        )
        assert sent.failures == []
        assert sent.answers >= REQUESTS
        assert len(sent.by_replica) >= RESTARTS
        stored = {acl["resource_name"] for acl in replicas[0].ready().acls()}
        assert set(sent.created) <= stored
        assert len(sent.created) > REQUESTS // 200
    finally:
        for each in replicas:
            each.stop()
