"""One face of several workers: what the worker that is asked says for all (app.rest.routes.health)."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.process import siblings
from app.process.channel import Channel
from app.process.siblings import Siblings
from app.rest.app import AppOptions, create_rest_app
from tests.klamm import InProcess

READY = {"ready": True, "started": True, "state": "READY"}
COLD = {"ready": False, "started": False, "state": "LOADING"}
FENCED = {"ready": False, "started": True, "state": "FENCED"}
PATHS = ("/readyz", "/readyz/CLIENT", "/startupz")


@asynccontextmanager
async def beside(service: InProcess, *others: dict[str, Any], page: str = "") -> AsyncIterator[httpx.AsyncClient]:
    """A client of the same replica as one of several workers; `others` is what the supervisor knows of the rest."""

    async def hear(subject: str, _: object) -> object:
        if subject not in ("readiness", "metrics") or not others:
            await asyncio.Event().wait()
        return page if subject == "metrics" else list(others)

    here, there = socket.socketpair()
    supervisor = Channel(here, hear)
    await supervisor.open()
    found = Siblings(there, -1, orphaned=lambda: None)
    app = create_rest_app(service.authorizer, service.metrics, service.audit, AppOptions(siblings=found))
    await found.open(app.worker_probe)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        yield client
    await found.close()
    await supervisor.close()


def worker(number: int, readiness: dict[str, Any] | None, *, needed: bool = True) -> dict[str, Any]:
    return {"number": number, "needed": needed, "readiness": readiness}


async def statuses(client: httpx.AsyncClient) -> list[int]:
    return [(await client.get(path)).status_code for path in PATHS]


async def test_the_service_is_ready_when_all_workers_are(service: InProcess) -> None:
    async with beside(service, worker(2, READY), worker(3, READY)) as client:
        assert [(await client.get(path)).text for path in PATHS] == ["ok"] * 3
        assert "[+]worker/3 ok: ready\n" in (await client.get("/readyz?verbose")).text


async def test_one_cold_worker_makes_the_service_unready(service: InProcess) -> None:
    async with beside(service, worker(2, READY), worker(3, COLD)) as client:
        assert await statuses(client) == [503, 503, 503]
        assert "[-]worker/3 failed: loading\nreadyz check failed\n" in (await client.get("/readyz")).text
        assert (await client.get("/livez")).text == "ok"


START: dict[str, Any] = {
    "broker_id": 1,
    "endpoints": [{"listener_name": "CLIENT", "security_protocol": "SASL_SSL", "host": "broker", "port": 9092}],
}


@pytest.mark.parametrize(("other", "ready"), [(READY, True), (COLD, False), (FENCED, False), (None, False)])
async def test_a_listener_may_start_when_all_workers_are_ready_for_it(
    service: InProcess,
    other: dict[str, Any] | None,
    ready: bool,  # noqa: FBT001 - parameter of a table
) -> None:
    async with beside(service, worker(2, other)) as client:
        answer = await client.post("/v1/start", json={**START, "wait_ms": 150})
        assert answer.json()["listeners"] == [{"listener_name": "CLIENT", "ready": ready}]


async def test_a_broker_is_answered_at_once_by_a_worker_that_drains_meanwhile(service: InProcess) -> None:
    async with beside(service, worker(2, COLD)) as client, asyncio.timeout(30):
        asyncio.get_running_loop().call_later(0.2, service.authorizer.readiness.draining)
        answer = await client.post("/v1/start", json={**START, "wait_ms": 300_000})
    assert answer.json()["listeners"] == [{"listener_name": "CLIENT", "ready": False}]


@pytest.mark.parametrize("others", [(), (worker(2, READY),)])
async def test_many_listeners_wait_no_longer_than_one(service: InProcess, others: tuple[dict[str, Any], ...]) -> None:
    endpoints = [{**START["endpoints"][0], "listener_name": f"L{at:03d}"} for at in range(700)]
    async with beside(service, *others) as client, asyncio.timeout(60):
        # Without others the supervisor is silent, and this worker speaks for itself.
        answer = await client.post("/v1/start", json={**START, "endpoints": endpoints, "wait_ms": 0})
    assert answer.json()["listeners"] == [{"listener_name": f"L{at:03d}", "ready": True} for at in range(700)]


async def test_a_fenced_worker_has_started(service: InProcess) -> None:
    async with beside(service, worker(2, FENCED)) as client:
        assert await statuses(client) == [503, 503, 200]


async def test_a_worker_that_does_not_answer_is_not_ready(service: InProcess) -> None:
    async with beside(service, worker(2, None)) as client:
        assert await statuses(client) == [503, 503, 503]
        assert "[-]worker/2 failed: no answer\n" in (await client.get("/readyz")).text


@pytest.mark.parametrize("readiness", [None, COLD])
async def test_a_worker_that_takes_no_connections_yet_does_not_count(
    service: InProcess, readiness: dict[str, Any] | None
) -> None:
    async with beside(service, worker(2, readiness, needed=False)) as client:
        assert await statuses(client) == [200, 200, 200]
        assert "[+]worker/2 ok: restarting" in (await client.get("/readyz?verbose")).text


async def test_ready_siblings_do_not_make_this_worker_ready(unloaded: InProcess) -> None:
    async with beside(unloaded, worker(2, READY)) as client:
        assert await statuses(client) == [503, 503, 503]


async def test_without_an_answer_of_the_supervisor_a_worker_speaks_for_itself(
    service: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings, "_ANSWER_TIMEOUT_S", 0.05)
    async with beside(service) as client:
        assert await statuses(client) == [200, 200, 200]
        assert "[+]workers ok: the supervisor does not answer" in (await client.get("/readyz?verbose")).text
        # One worker's numbers are not those of the service.
        assert (await client.get("/metrics")).status_code == 503


async def test_the_page_of_metrics_is_that_of_the_service(service: InProcess) -> None:
    async with beside(service, worker(2, READY), page="klamm_workers 2.0\n") as client:
        reply = await client.get("/metrics")
        assert (reply.status_code, reply.text) == (200, "klamm_workers 2.0\n")
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_a_worker_tells_the_others_how_it_stands(service: InProcess, unloaded: InProcess) -> None:
    for each, ready, state in ((service, True, "READY"), (unloaded, False, "LOADING")):
        probe = create_rest_app(each.authorizer, each.metrics, each.audit).worker_probe
        found = probe.readiness(None)
        assert (found.ready, found.started, found.state) == (ready, ready, state)
        families = {family.name: family for family in probe.families()}
        assert families["klamm_acl_count"].samples == [("klamm_acl_count", {}, 0.0 if ready else -1.0)]
