"""Principals with groups in a broker: its own authorizer answers as the service does, and names the same ACL."""

import json
from pathlib import Path
from random import Random

import pytest

from app.core.grouped import authorization_of
from app.core.groups import MAX_GROUPS, groups_of
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.pipeline.history.decision_lines import LineFault, parse_line
from app.pipeline.history.schemas import BINDING_FIELDS, DECISIONS
from tests.images import image_of, numbered
from tests.klamm import SUPER_USER, Json, acl, over_socket, wait_until
from tests.proof.kafka.acls_tool import AclsTool
from tests.proof.kafka.authorizer import Authorizer, Host
from tests.proof.kafka.broker import Broker, free_ports, new_cluster_id
from tests.proof.kafka.scene import Scene
from tests.proof.kafka.wire import ALLOWED, REFUSED, Wire

_HOLDERS = ("User:alice", "User:*", "Group:a", "Group:b", "Group:*", "Group:\uff5e", "Group:\U0001f600")
_ASKERS = ("User:alice", "User:bob", "User:*", "Group:a", SUPER_USER)
_GROUPS: tuple[list[str] | None, ...] = (
    None,
    [],
    ["a"],
    ["b", "a"],
    ["a", "b", "*"],
    ["\U0001f600", "\uff5e"],
    ["unknown", "alice"],
    ["User:admin"],
)
_NAMES = ("a", "ab", "abc", "b", "ba", "*")
_HOSTS = ("*", "*", "10.0.0.1", "10.0.0.0/30")
_FROM = ("10.0.0.1", "10.0.0.2", "10.1.0.1")
_TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
_OPERATIONS = [each for each in AclOperation if each > AclOperation.ALL]
_STORES, _REQUESTS, _ACTIONS = 60, 40, 8
_LOGGED = ("principal", "host", "groups", "resource_name", "result", "rule", "acl_id")


def _binding(draw: Random, holder: str, *, types: tuple[ResourceType, ...] = _TYPES) -> AclBinding:
    name = draw.choice(_NAMES)
    return AclBinding(
        draw.choice(types),
        name,
        draw.choice((PatternType.LITERAL, PatternType.PREFIXED)) if name != "*" else PatternType.LITERAL,
        holder,
        draw.choice(_HOSTS),
        draw.choice((AclOperation.ALL, AclOperation.READ, *_OPERATIONS)),
        draw.choice((AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)),
    )


def _line(seed: int) -> Json:
    """A store, and what core answers of it."""
    draw = Random(seed)
    acls = numbered(_binding(draw, draw.choice(_HOLDERS)) for _ in range(draw.randint(1, 40)))
    open_to_all = draw.random() < 0.3
    image = image_of(
        acls, AuthorizerConfig(frozenset({SUPER_USER, "Group:b"}), allow_everyone_if_no_acl_found=open_to_all)
    )
    requests = list[Json]()
    for number in range(_REQUESTS):
        principal, host, groups = draw.choice(_ASKERS), draw.choice(_FROM), draw.choice(_GROUPS)
        caller = authorization_of(image, principal, parse_address(host), groups_of(groups))
        asked = [(draw.choice(_OPERATIONS), draw.choice(_TYPES), draw.choice(_NAMES)) for _ in range(_ACTIONS)]
        is_by_type = number % 4 == 0
        said = [
            caller.authorize_by_resource_type(operation, kind) if is_by_type else caller.decide(operation, kind, name)
            for operation, kind, name in asked
        ]
        actions = [
            {"operation": operation.name, "resource_type": kind.name, "resource_name": name}
            for operation, kind, name in asked
        ]
        request = {
            "principal": principal,
            "host": host,
            "groups": groups,
            "checks" if is_by_type else "actions": actions,
        }
        requests.append({**request, "expected": [each.result.value for each in said]})
    return {
        "n": seed,
        "config": {"super.users": f"{SUPER_USER};Group:b", "allow.everyone.if.no.acl.found": str(open_to_all).lower()},
        "acls": [{"id": str(acl.id), **dict(zip(BINDING_FIELDS, acl.binding.words, strict=True))} for acl in acls],
        "requests": requests,
    }


def test_groups_decide_as_core_does_on_random_stores(authorizer: Authorizer, tmp_path: Path) -> None:
    asked = "".join(json.dumps(_line(seed)) + "\n" for seed in range(_STORES))
    same, *differences = authorizer.run("Vectors", str(tmp_path), lines=asked)
    assert not differences
    assert int(same) == _STORES * _REQUESTS * _ACTIONS


def _logged(folder: Path) -> set[tuple[str, ...]]:
    """What the pipeline reads of each decision."""
    names, found = DECISIONS.fieldNames(), set[tuple[str, ...]]()
    for file in folder.glob("decisions-*.jsonl"):
        for raw in file.read_bytes().splitlines():
            rows = parse_line(raw)
            assert not isinstance(rows, LineFault), (rows, raw)
            for row in rows:
                of = dict(zip(names, row, strict=True))
                found.add(tuple(str(of[name]) for name in _LOGGED))
    return found


def test_a_real_service_answers_and_logs_alike(authorizer: Authorizer, tmp_path: Path) -> None:
    ours, theirs, draw = tmp_path / "broker", tmp_path / "service", Random(18)
    bindings = {_binding(draw, holder, types=_TYPES[:1]) for _ in range(6) for holder in _HOLDERS}
    words = [dict(zip(BINDING_FIELDS, each.words, strict=True)) for each in bindings]
    asked = [(who, groups, host) for who in _ASKERS for groups in _GROUPS for host in _FROM]
    log = {"KLAMM_DECISION_LOG_PATH": str(theirs)}
    with over_socket("--data-dir", str(tmp_path / "data"), settings=log).ready() as service:
        service.create(*words)
        settings = {"klamm_decision_log_path": str(ours), "super_users": SUPER_USER}
        with Host(authorizer, tmp_path, klamm_urls=service.url, **settings) as host:
            host.becomes("loaded", "DENIED")
            for principal, groups, address in asked:
                context = {"principal": principal, "client_address": address, "groups": groups}
                actions = [{"operation": "READ", "resource_type": "TOPIC", "resource_name": name} for name in _NAMES]
                said = service.post("/v1/authorize", {"context": context, "actions": actions})["results"]
                named = {"principal": principal, "host": address, "groups": groups}
                assert host.do("ask", names=_NAMES, **named) == f"[{', '.join(said)}]", named
            for bad in ([""], ["x" * 256], ["a\0"], [None], [f"g{at}" for at in range(MAX_GROUPS + 1)]):
                assert host.do("ask", names=["a"], groups=bad).startswith("java.lang.IllegalArgumentException: "), bad
            assert host.ended() == "[]"
    of_service = _logged(theirs)
    assert {each for each in _logged(ours) if each[1] != "127.0.0.1"} == of_service
    assert any(who == "User:alice" and groups != "None" and by != "None" for who, _, groups, *_, by in of_service)


def test_a_brokers_principal_builder_names_groups_and_controllers_hear_of_them(
    authorizer: Authorizer, tmp_path: Path
) -> None:
    cluster_id = new_cluster_id()
    scene = Scene(tmp_path / "klamm", free_ports(1)[0], cluster_id)
    scene.service.create(
        acl("orders", "Group:team", "DESCRIBE"),
        acl("orders", "Group:fired", "DESCRIBE", permission_type="DENY"),
        acl("kafka-cluster", "Group:chiefs", "ALTER", resource_type="CLUSTER"),
        acl("orders", "User:dan", "DESCRIBE"),
    )
    settings = (
        "authorizer.class.name=klamm.kafka.KlammAuthorizer",
        "principal.builder.class=klamm.kafka.TeamsBuilder",
        f"klamm.urls={scene.service.url}",
        f"klamm.principal={SUPER_USER}",
    )
    try:
        with Broker(authorizer.kafka, tmp_path, cluster_id, settings) as broker:
            for user, answer in (("alice", ALLOWED), ("bob", REFUSED), ("carol", REFUSED)):
                with Wire(broker.address, user) as wire:
                    assert wire.describe("orders") == {"orders": answer}, user
            # His groups are too many, so nothing is decided on him, not even by his own ACL.
            with Wire(broker.address, "dan") as wire, pytest.raises((OSError, AssertionError), match=r"hung up|reset"):
                wire.describe("orders")
            # Brokers hand this on to the controller, which knows of the group by the serialized principal.
            with AclsTool(authorizer.kafka, broker.address, tmp_path) as acls:
                added = acls.run(
                    "--add", "--allow-principal", "User:carol", "--operation", "Describe", "--topic", "orders"
                )
                assert added.exit == 0, added
            with Wire(broker.address, "carol") as wire:
                wait_until(lambda: wire.describe("orders") == {"orders": ALLOWED}, "the ACL holds")
    finally:
        scene.service.stop()
