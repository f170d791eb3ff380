"""start, describeConfigs and alterConfigs over HTTP."""

import asyncio
from typing import Any

import pytest

from app.core.kafka.configs import AuthorizerConfig
from tests.chains import config
from tests.gate.unit.rest.test_bad_input import check_problem
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl, in_process


def started_by(*names: str, **more: object) -> dict[str, Any]:
    endpoints = [{"listener_name": each, "security_protocol": "SSL", "host": "h", "port": 9092} for each in names]
    return {"broker_id": 1, "endpoints": endpoints, **more}


async def test_start_tells_each_listener_in_order(service: InProcess) -> None:
    reply = await service.send("/v1/start", started_by("B", "A", inter_broker_listener_name="A"))
    assert reply.status_code == 200
    assert reply.json() == {
        "cluster_id": "fake-cluster",
        "listeners": [{"listener_name": "B", "ready": True}, {"listener_name": "A", "ready": True}],
    }


async def test_start_waits_no_longer_than_it_is_told() -> None:
    config = AuthorizerConfig(early_start_listeners=frozenset({"CONTROLLER"}))
    async with in_process(reachable=False, startup=config) as service:
        reply = await service.send("/v1/start", started_by("CONTROLLER", "CLIENT", wait_ms=10))
        assert reply.json() == {
            "cluster_id": None,
            "listeners": [{"listener_name": "CONTROLLER", "ready": True}, {"listener_name": "CLIENT", "ready": False}],
        }


async def test_start_answers_once_the_listeners_are_ready(unloaded: InProcess) -> None:
    starting = asyncio.create_task(unloaded.send("/v1/start", started_by("CLIENT", wait_ms=20_000)))
    await asyncio.sleep(0.01)
    assert not starting.done()
    unloaded.store.unreachable = False
    assert (await starting).json()["listeners"] == [{"listener_name": "CLIENT", "ready": True}]


async def test_a_broker_of_another_cluster_is_refused(service: InProcess) -> None:
    assert (await service.send("/v1/start", started_by("A", cluster_id="fake-cluster"))).status_code == 200
    reply = await service.send("/v1/start", started_by("A", cluster_id="another"))
    assert (reply.status_code, reply.json()["code"], reply.json()["error_code"]) == (
        409,
        "INCONSISTENT_CLUSTER_ID",
        104,
    )


@pytest.mark.parametrize(("names", "inter_broker"), [(("A", "B"), "C"), (("A",), "a"), ((), "A"), (("A",), "")])
async def test_the_brokers_own_listener_is_one_of_the_endpoints(
    service: InProcess, names: tuple[str, ...], inter_broker: str
) -> None:
    reply = await service.send("/v1/start", started_by(*names, inter_broker_listener_name=inter_broker))
    problem = check_problem(reply, 400)
    assert (problem["code"], problem["error_code"]) == ("INVALID_REQUEST", 42)
    assert [each["pointer"] for each in problem["errors"]] == ["/inter_broker_listener_name"]
    assert (await service.send("/v1/start", started_by(*names, inter_broker_listener_name=None))).status_code == 200


async def test_an_endpoint_has_a_protocol_that_kafka_knows(service: InProcess) -> None:
    body = started_by("A", "B")
    body["endpoints"][1]["security_protocol"] = "TLS"
    problem = check_problem(await service.send("/v1/start", body), 400)
    assert [each["pointer"] for each in problem["errors"]] == ["/endpoints/1/security_protocol"]
    assert "SASL_SSL" in problem["detail"]


async def test_a_start_is_in_the_log(service: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await service.send("/v1/start", started_by("B", "A", inter_broker_listener_name="A"))
    (record,) = [each for each in caplog.records if each.message == "broker_starts"]
    assert record.__dict__["broker_id"] == 1
    assert record.__dict__["listeners"] == ["B SSL://h:9092", "A SSL://h:9092"]
    assert record.__dict__["inter_broker_listener"] == "A"


async def configs(service: InProcess) -> dict[str, tuple[str, str]]:
    reply = await service.client.get("/v1/configs")
    assert reply.status_code == 200
    return {each["name"]: (each["value"], each["source"]) for each in reply.json()["configs"]}


async def test_a_property_of_a_later_version_is_named_but_not_described(service: InProcess) -> None:
    store = service.store
    store.append(store.chained([config("later.property", "on"), config("audit.level", "WARN")]))
    at_least = f"{store.epoch}:{store.tables.last_offset}"
    reply = (await service.client.get(f"/v1/configs?at_least={at_least}")).json()
    assert reply["unknown_names"] == ["later.property"]
    assert "later.property" not in [each["name"] for each in reply["configs"]]
    refused = await alter(service, ("later.property", None))
    assert refused.json()["results"][0]["code"] == "INVALID_REQUEST"


async def alter(service: InProcess, *changes: tuple[str, str | None], context: object = ADMIN) -> Any:  # noqa: ANN401 - JSON
    body = {"context": context, "configs": [{"name": name, "value": value} for name, value in changes]}
    return await service.send("/v1/configs", body)


async def test_every_property_is_described(service: InProcess) -> None:
    assert await configs(service) == {
        "super.users": ("User:admin", "STARTUP"),
        "allow.everyone.if.no.acl.found": ("false", "STARTUP"),
        "early.start.listeners": ("", "STARTUP"),
        "max.staleness.ms": ("", "STARTUP"),
        "audit.level": ("INFO", "STARTUP"),
    }


async def test_a_change_is_in_force_when_it_is_answered_and_goes_by_null(service: InProcess) -> None:
    reply = await alter(service, ("allow.everyone.if.no.acl.found", "true"))
    assert reply.json() == {
        "results": [{"error_code": 0, "code": "NONE", "error_message": None}],
        "token": f"{service.store.epoch}:1",
    }
    assert await service.authorize(ALICE, READ_ORDERS) == ["ALLOWED"]
    assert (await configs(service))["allow.everyone.if.no.acl.found"] == ("true", "STORE")
    await alter(service, ("allow.everyone.if.no.acl.found", None))
    assert await service.authorize(ALICE, READ_ORDERS) == ["DENIED"]
    assert (await configs(service))["allow.everyone.if.no.acl.found"] == ("false", "STARTUP")


async def test_a_refused_change_does_not_hinder_its_neighbours(service: InProcess) -> None:
    reply = await alter(service, ("super.users", "bob"), ("no.such", "x"), ("audit.level", "debug"))
    results = reply.json()["results"]
    assert [(each["code"], each["error_code"]) for each in results] == [
        ("INVALID_REQUEST", 42),
        ("INVALID_REQUEST", 42),
        ("NONE", 0),
    ]
    assert results[0]["error_message"] == "expected a string in format principalType:principalName but got bob"
    assert "no.such" in results[1]["error_message"]


async def test_changes_need_the_right_on_the_cluster(service: InProcess) -> None:
    reply = await alter(service, ("audit.level", "DEBUG"), context=ALICE)
    assert (reply.status_code, reply.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
    await service.create(acl("kafka-cluster", operation="ALTER_CONFIGS", resource_type="CLUSTER"))
    assert (await alter(service, ("audit.level", "DEBUG"), context=ALICE)).status_code == 200


@pytest.mark.parametrize("context", [ADMIN, ALICE])
async def test_nothing_is_changed_before_the_first_load(unloaded: InProcess, context: object) -> None:
    reply = await alter(unloaded, ("audit.level", "DEBUG"), context=context)
    assert (reply.status_code, reply.json()["code"]) == (503, "AUTHORIZER_NOT_READY")
    assert (await unloaded.client.get("/v1/configs")).json()["token"] is None


async def test_super_users_that_are_set_while_it_serves_are_in_doubt_as_at_its_start(
    service: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    reply = await alter(service, ("super.users", "User:admin;User:a,User:b"))
    assert reply.json()["results"][0]["code"] == "NONE", reply.text
    (told,) = [each for each in caplog.records if each.message == "super_user_in_doubt"]
    assert told.levelname == "WARNING"
    assert vars(told)["why"].startswith("`User:a,User:b` is a single principal")
