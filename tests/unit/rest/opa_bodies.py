"""What the OPA plugin for Kafka sends, as facts of a real broker have it."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import httpx

from tests.unit.rest.harness import Service

OPA_PATH = "/v1/data/kafka/authz/allow"
REFUSED = (400, "INVALID_REQUEST")
NEAR_PATHS = (
    "/v0/data",
    "/v0/data/",
    "/v0/data/kafka/authz/allow",
    "//v1/data",
    "//v1/data/kafka/authz/allow",
    "/v1//data///kafka/authz/allow",
    "/v1/data//kafka/authz/allow",
    "/V1/Data/kafka/authz/allow",
    "/./v1/data",
    "/v1/./data/kafka/authz/allow",
    "/x/../v1/data/kafka/authz/allow",
    "/v1/data/../acls",
    "/v1/data;x/kafka/authz/allow",
    "/v1/data%3Fpretty",
    "/v1/data%20",
    "/%2Fv1%2fdata",
    "/v1%252Fdata",
    "/v%2531/dat%2561/kafka/authz/allow",
    "/v%30/data",
)
"""What somebody may write who means the door, or OPA, and what nobody but those would write."""
HEADER = {"clientId": "adminclient-1", "correlationId": 3, "requestApiKey": 3, "requestApiVersion": 13}


def asked(
    operation: str = "READ",
    name: str = "orders",
    *,
    type_: str = "TOPIC",
    principal: str = "alice",
    address: str = "/10.1.2.3",
    **action: object,
) -> dict[str, Any]:
    """A body; further arguments stand in its action."""
    return {
        "input": {
            "requestContext": {
                "clientAddress": address,
                "clientInformation": {"softwareName": "apache-kafka-java", "softwareVersion": "4.3.1"},
                "connectionId": "127.0.0.1:19092-127.0.0.1:39778-0-1",
                "header": {"name": HEADER, "headerVersion": 2},
                "listenerName": "CLIENT",
                "principal": {"principalType": "User", "name": principal},
                "securityProtocol": "SASL_PLAINTEXT",
            },
            "action": {
                "resourcePattern": {"resourceType": type_, "name": name, "patternType": "LITERAL", "unknown": False},
                "operation": operation,
                "resourceReferenceCount": 1,
                "logIfAllowed": True,
                "logIfDenied": True,
                **action,
            },
        }
    }


def by_type(operation: str = "WRITE", type_: str = "TOPIC", principal: str = "alice") -> dict[str, Any]:
    """authorizeByResourceType, as the plugin says it."""
    pattern = {"resourceType": type_, "name": "", "patternType": "PREFIXED", "unknown": False}
    return asked(operation, principal=principal, resourcePattern=pattern, resourceReferenceCount=0)


def with_context(**changes: object) -> dict[str, Any]:
    """A body with another context; None takes a field away."""
    body = asked()
    context = {**body["input"]["requestContext"], **changes}
    body["input"]["requestContext"] = {key: value for key, value in context.items() if value is not None}
    return body


def decision_of(reply: httpx.Response) -> bool:
    """The decision in this reply, which must be one."""
    assert reply.status_code == 200, (reply.status_code, reply.text)
    assert reply.headers["content-type"] == "application/json"
    assert reply.content in (b'{"result":true}', b'{"result":false}')
    return reply.content == b'{"result":true}'


def refusal_of(reply: httpx.Response) -> tuple[int, str]:
    """Status and code of this reply, which must be a refusal that the plugin can't take for an answer."""
    assert reply.status_code >= 400, reply.text
    check_plain(reply.headers["content-type"], reply.content)
    return reply.status_code, reply.text


def check_plain(content_type: str, body: bytes) -> None:
    """Neither JSON, nor what a lenient reader takes for it, nor empty: the name of an error."""
    assert content_type.startswith("text/plain")
    text = body.decode("ascii")
    assert text.replace("_", "").isalpha()
    assert text.isupper()
    try:
        json.loads(text)
    except ValueError:
        return
    raise AssertionError(f"this is JSON: {text}")


async def ask(service: Service, body: object, path: str = OPA_PATH) -> bool:
    """The decision on this body."""
    return decision_of(await service.post(path, body))


async def ask_in_vain(service: Service, body: object, path: str = OPA_PATH) -> tuple[int, str]:
    """The refusal of this body."""
    return refusal_of(await service.post(path, body))


def spoiled(draw: random.Random) -> Iterator[bytes]:
    """Bodies that are a little, or much, out of order."""
    junk: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], {}, {"result": True}, "true", 2**70, "\0", "/", ":")
    while True:
        body = copy.deepcopy(draw.choice([asked(), by_type(), asked("WRITE", "")]))
        for _ in range(draw.choice([1, 1, 2, 5])):
            at: Any = body
            while isinstance(at, dict) and at:
                key = draw.choice(list(at))
                if draw.random() < 0.3 or not isinstance(at[key], dict):
                    at[draw.choice([key, key, "result", "later"])] = copy.deepcopy(draw.choice(junk))
                    break
                at = at[key]
        text = bytearray(json.dumps(body).encode())
        if draw.random() < 0.4:
            for _ in range(draw.choice([1, 2, 8])):
                text[draw.randrange(len(text))] = draw.choice(b'"{}[],:\\ \x00\xff0a')
        if draw.random() < 0.2:
            text = text[: draw.randrange(len(text))]
        yield bytes(text)
