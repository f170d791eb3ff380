"""Bodies of start, describeConfigs and alterConfigs (KIP-504)."""

from typing import Annotated

from msgspec import UNSET, Meta

from app.rest.bodies.examples import ADMIN, EPOCH, NO_ERROR, TOKEN, Example
from app.rest.bodies.fields import (
    MAX_ITEMS,
    AtLeast,
    AuthorizableRequestContext,
    Comment,
    IfUnchangedSince,
    Int32,
    Outcome,
    Reply,
    Request,
    Text,
    TimeoutMs,
    Token,
    WaitMs,
    doc,
)

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Endpoint(Request):
    """A listener of the broker."""

    listener_name: str
    security_protocol: Annotated[str, doc("PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.")]
    host: Annotated[str, doc("The host that the broker listens on.")]
    port: Annotated[int, Meta(ge=0, le=65535)]


class StartRequest(Request, kw_only=True):
    """What a broker reports at start-up (KIP-504 AuthorizerServerInfo)."""

    cluster_id: Annotated[Text, doc("The broker's cluster id; refused (409) if it is not the store's.")] = UNSET
    broker_id: Int32
    endpoints: Annotated[list[Endpoint], Meta(max_length=MAX_ITEMS)]
    inter_broker_listener_name: Annotated[
        Text, doc("The listener that the brokers use among themselves: one of the endpoints'.")
    ] = UNSET
    wait_ms: Annotated[WaitMs, doc("Answer once all listeners are ready, or after this time.")] = 5_000
    at_least: AtLeast = UNSET


class ListenerReadiness(Reply):
    """Whether one listener may take connections."""

    listener_name: str
    ready: Annotated[bool, doc("Whether it may take connections.")]


class StartResponse(Reply):
    """The listeners in the order of the endpoints."""

    cluster_id: Annotated[str | None, doc("Null until the first load is complete.")]
    listeners: list[ListenerReadiness]


class ConfigEntry(Reply):
    """A property and its current value."""

    name: Annotated[str, doc("The name of the property in Kafka or Klamm, such as `super.users`.")]
    value: Annotated[str | None, doc("As text.")]
    source: Annotated[str, doc("STARTUP or STORE; more may be added.")]


class DescribeConfigsResponse(Reply):
    """Every property that can change while the service runs."""

    configs: list[ConfigEntry]
    unknown_names: Annotated[
        list[str],
        doc("Stored properties that only a later version knows. They have no effect here, and can't be changed here."),
    ]
    token: Token


class ConfigChange(Request):
    """A property and its new value; null returns it to its start-up value."""

    name: Annotated[str, doc("A property that describeConfigs lists.")]
    value: Annotated[str | None, doc("As text; null restores the start-up value.")]


class AlterConfigsRequest(Request):
    """Changes of properties."""

    context: AuthorizableRequestContext
    configs: Annotated[list[ConfigChange], Meta(max_length=MAX_ITEMS)]
    timeout_ms: TimeoutMs = UNSET
    if_unchanged_since: IfUnchangedSince = UNSET
    comment: Comment = UNSET
    at_least: AtLeast = UNSET


class AlterConfigsResult(Outcome):
    """The outcome for one change."""


class AlterConfigsResponse(Reply):
    """One result per change, in order."""

    results: list[AlterConfigsResult]
    token: Token


START_EXAMPLE = Example(
    request={
        "broker_id": 1,
        "endpoints": [
            {"listener_name": "EXTERNAL", "security_protocol": "SASL_SSL", "host": "broker-1.internal", "port": 9093}
        ],
        "inter_broker_listener_name": "EXTERNAL",
    },
    reply={
        "cluster_id": "Ht3x4cWmT0yU1o7JxkQ2Vg",
        "listeners": [{"listener_name": "EXTERNAL", "ready": True}],
    },
)
DESCRIBE_CONFIGS_EXAMPLE = Example(
    reply={
        "configs": [
            {"name": "super.users", "value": "User:admin", "source": "STARTUP"},
            {"name": "allow.everyone.if.no.acl.found", "value": "false", "source": "STARTUP"},
            {"name": "early.start.listeners", "value": "", "source": "STARTUP"},
            {"name": "max.staleness.ms", "value": "", "source": "STARTUP"},
            {"name": "audit.level", "value": "INFO", "source": "STARTUP"},
        ],
        "unknown_names": [],
        "token": TOKEN,
    },
)
ALTER_CONFIGS_EXAMPLE = Example(
    request={"context": ADMIN, "configs": [{"name": "audit.level", "value": "DEBUG"}]},
    reply={"results": [NO_ERROR], "token": f"{EPOCH}:349"},
)
