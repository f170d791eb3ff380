"""max.staleness.ms: an image that is too old decides for super users only; without the bound it serves on."""

import pytest

from tests.bodies import refusal
from tests.klamm import SUPER_USER, acl, replica, wait_until
from tests.postgres import Store
from tests.proof.e2e.probes import status, verbose
from tests.proof.e2e.questions import ALICE, DECISIONS, ORDERS, ROOT


@pytest.mark.parametrize("set_by", ["variable", "alterConfigs"])
def test_an_image_older_than_max_staleness_decides_for_super_users_only(store: Store, set_by: str) -> None:
    settings = {"KLAMM_MAX_STALENESS_MS": "4000"} if set_by == "variable" else {}
    with replica(store.dsn, **settings) as service:
        service.ready().create(acl("orders"))
        if set_by == "alterConfigs":
            change = {"name": "max.staleness.ms", "value": "4000"}
            results = service.post("/v1/configs", {"context": ROOT, "configs": [change]})["results"]
            assert results == [{"error_code": 0, "code": "NONE", "error_message": None}]
        assert service.authorize("User:alice", ORDERS) == ["ALLOWED"]

        store.server.stop()
        wait_until(lambda: status(service, "/readyz") == 503, "fenced")
        assert "[-]staleness failed" in verbose(service)
        assert "bound: 4000 ms" in verbose(service)
        assert [status(service, path) for path in ("/livez", "/startupz")] == [200, 200]
        for path, asked in DECISIONS.items():
            refusal(service.http.post(path, json={"context": ALICE, **asked}), 503, "AUTHORIZER_NOT_READY")
        assert service.authorize(SUPER_USER, ORDERS) == ["ALLOWED"]
        assert 'klamm_readiness_state{state="FENCED"} 1.0' in service.http.get("/metrics").text

        store.server.start()
        service.ready()
        assert service.authorize("User:alice", ORDERS) == ["ALLOWED"]
        # Nothing changes any more, and the image is as fresh as ever: looks at the feed keep it so.
        polls = service.metric("klamm_feed_polls_total")
        while service.metric("klamm_feed_polls_total") < polls + 4:
            assert status(service, "/readyz") == 200


def test_without_max_staleness_an_old_image_serves_on(store: Store) -> None:
    with replica(store.dsn) as service:
        service.ready().create(acl("orders"))
        store.server.stop()
        wait_until(lambda: service.metric("klamm_feed_poll_failures_total") >= 3, "noticed")
        assert service.http.get("/readyz").text.startswith("[+]initial-load ok")
        assert "last known to equal the head" in service.http.get("/readyz").text
        assert service.authorize("User:alice", ORDERS) == ["ALLOWED"]
        store.server.start()
        wait_until(lambda: service.http.get("/readyz").text == "ok", "current again")


def test_a_bound_that_no_image_can_keep_can_be_taken_back(store: Store) -> None:
    with replica(store.dsn) as service:
        service.ready()
        for value in ("1", None):
            change = {"context": ROOT, "configs": [{"name": "max.staleness.ms", "value": value}]}
            assert service.post("/v1/configs", change)["results"][0]["code"] == "NONE"
        service.ready()
        assert service.authorize("User:alice", ORDERS) == ["DENIED"]
