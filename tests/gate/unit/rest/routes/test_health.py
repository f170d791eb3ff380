"""Probes and the metrics page."""

import re

import pytest

from app.core.kafka.configs import AuthorizerConfig
from app.metrics.declared import OPERATIONS
from app.metrics.page import CONTENT_TYPE
from app.rest.app import ROUTES
from app.rest.pages.routes import pages_routes
from tests.klamm import InProcess, in_process, until

LINE = re.compile(r"\[[+-]\](?P<name>\S+) (ok|failed)(: .+)?\Z")


async def probe(service: InProcess, path: str) -> tuple[int, str]:
    reply = await service.client.get(path)
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    return reply.status_code, reply.text


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/readyz/CLIENT", "/startupz"])
async def test_a_ready_replica_answers_ok(service: InProcess, path: str) -> None:
    assert await probe(service, path) == (200, "ok")


@pytest.mark.parametrize("path", ["/readyz", "/readyz/CLIENT", "/startupz"])
async def test_a_replica_without_acls_is_alive_and_no_more(unloaded: InProcess, path: str) -> None:
    status, text = await probe(unloaded, path)
    assert status == 503
    assert re.search(r"^\[-\]\S+ failed: .+$", text, re.MULTILINE)
    assert text.endswith(f"{path.split('/')[1]} check failed\n")
    assert await probe(unloaded, "/livez") == (200, "ok")


async def test_verbose_probes_print_every_check_as_kubernetes_does(
    subtests: pytest.Subtests, service: InProcess
) -> None:
    for query in ["verbose", "verbose=", "verbose=1"]:
        for path in ["/livez", "/readyz", "/readyz/CLIENT", "/startupz"]:
            with subtests.test(query=query, path=path):
                status, text = await probe(service, f"{path}?{query}")
                *checks, summary, empty = text.split("\n")
                assert (status, summary, empty) == (200, f"{path.split('/')[1]} check passed", "")
                assert checks
                assert all(LINE.match(each) for each in checks)


async def test_a_live_check_reads_as_in_kubernetes(service: InProcess) -> None:
    assert await probe(service, "/livez?verbose") == (200, "[+]ping ok\nlivez check passed\n")


async def test_a_replica_becomes_ready_without_a_restart(unloaded: InProcess) -> None:
    unloaded.store.unreachable = False
    await unloaded.authorizer.readiness.wait_until_ready(["CLIENT"], 10)
    assert await probe(unloaded, "/readyz") == (200, "ok")
    assert await probe(unloaded, "/startupz") == (200, "ok")


async def test_a_replica_that_lost_its_store_is_ready_and_names_its_age(service: InProcess) -> None:
    service.store.unreachable = True
    service.store.disconnect()

    async def has_noticed() -> bool:
        return (await probe(service, "/readyz"))[1] != "ok"

    await until(has_noticed)
    status, text = await probe(service, "/readyz")
    assert status == 200
    assert re.search(r"last known to equal the head \d+\.\d s ago", text)
    assert text.endswith("readyz check passed\n")


async def test_early_start_listeners_are_ready_before_the_first_load() -> None:
    config = AuthorizerConfig(early_start_listeners=frozenset({"CONTROLLER"}))
    async with in_process(reachable=False, startup=config) as service:
        assert await probe(service, "/readyz/CONTROLLER") == (200, "ok")
        assert (await probe(service, "/readyz/CLIENT"))[0] == 503


async def test_a_draining_replica_is_not_ready(service: InProcess) -> None:
    service.authorizer.readiness.draining()
    assert (await probe(service, "/readyz"))[0] == 503
    status, text = await probe(service, "/readyz/CLIENT")
    assert (status, text.splitlines()[0]) == (503, "[-]listener/CLIENT failed: draining")
    assert (await probe(service, "/livez"))[0] == 200


async def test_the_name_of_a_listener_stays_on_its_line(service: InProcess) -> None:
    _, text = await probe(service, "/readyz/A%E2%80%A8[-]forged%20failed?verbose")
    assert text.count("\n") == len(text.splitlines()) == 2
    assert "listener/A\\u2028[-]forged failed ok" in text


async def test_a_listener_with_an_endless_name_is_refused(service: InProcess) -> None:
    reply = await service.client.get("/readyz/" + "x" * 250)
    assert (reply.status_code, reply.json()["code"]) == (400, "INVALID_REQUEST")
    assert "path parameter `listener_name`" in reply.json()["errors"][0]["detail"]


async def test_the_metrics_page_is_of_this_moment(service: InProcess) -> None:
    reply = await service.client.get("/metrics")
    assert reply.headers["content-type"] == CONTENT_TYPE
    assert "klamm_acl_count 0.0\n" in reply.text
    assert "klamm_feed_offset 0.0\n" in reply.text
    assert 'klamm_readiness_state{state="READY"} 1.0\n' in reply.text
    service.authorizer.readiness.draining()
    await service.client.get("/livez")
    await service.client.get("/nowhere")
    later = (await service.client.get("/metrics")).text
    assert 'klamm_readiness_state{state="DRAINING"} 1.0\n' in later
    assert 'klamm_http_requests_total{operation="livez",status="2xx"} 1.0\n' in later
    assert 'klamm_http_requests_total{operation="other",status="4xx"} 1.0\n' in later
    assert 'klamm_http_requests_total{operation="metrics",status="2xx"} 1.0\n' in later


def test_every_operation_is_counted_under_its_name() -> None:
    names = {route.name for route in (*ROUTES, *pages_routes(dict))}
    assert names | {"other", "console"} == set(OPERATIONS)
