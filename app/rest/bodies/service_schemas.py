"""Bodies of start, describeConfigs and alterConfigs (KIP-504), and of every refusal (RFC 9457)."""

from typing import Annotated

from pydantic import Field

from app.rest.bodies.schemas import (
    AtLeast,
    AuthorizableRequestContext,
    Code,
    Entries,
    ErrorCode,
    ErrorMessage,
    Int32,
    Reply,
    Request,
    TimeoutMs,
    Token,
)


class Endpoint(Request):
    """A listener of the broker."""

    listener_name: str
    security_protocol: str = Field(description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.")
    host: str = Field(description="Where the broker listens.")
    port: Annotated[int, Field(ge=0, le=65535)]


class StartRequest(Request):
    """What a broker tells at start-up (KIP-504 AuthorizerServerInfo)."""

    cluster_id: str | None = Field(None, description="The broker's; one that is not the store's is refused (409).")
    broker_id: Int32
    endpoints: Entries[Endpoint] = Field(json_schema_extra={"maxItems": 1000})
    inter_broker_listener_name: str | None = Field(None, description="Which of them the brokers themselves use.")
    wait_ms: TimeoutMs = Field(5_000, description="Answer when all listeners are ready, or after this time.")
    at_least: AtLeast = None


class ListenerReadiness(Reply):
    """Whether one listener may take connections."""

    listener_name: str
    ready: bool = Field(description="Whether it may.")


class StartResponse(Reply):
    """The listeners in the order of the endpoints."""

    cluster_id: str | None = Field(description="Null until the first load is complete.")
    listeners: list[ListenerReadiness]


class ConfigEntry(Reply):
    """A property in force."""

    name: str = Field(description="As Kafka or Klamm calls it, such as `super.users`.")
    value: str | None = Field(description="As text.")
    source: str = Field(description="STARTUP or STORE; expect others.")


class DescribeConfigsResponse(Reply):
    """Every property that can change while the service runs."""

    configs: list[ConfigEntry]
    token: Token


class ConfigChange(Request):
    """A property and its new value; null returns it to its start-up value."""

    name: str = Field(description="One that describeConfigs lists.")
    value: str | None = Field(description="As text; null for the start-up value.")


class AlterConfigsRequest(Request):
    """Changes of properties."""

    context: AuthorizableRequestContext
    configs: Entries[ConfigChange] = Field(json_schema_extra={"maxItems": 1000})
    timeout_ms: TimeoutMs | None = Field(None, description="How long to wait until this replica shows the change.")
    at_least: AtLeast = None


class AlterConfigsResult(Reply):
    """What came of one change."""

    error_code: ErrorCode
    code: Code
    error_message: ErrorMessage


class AlterConfigsResponse(Reply):
    """One result a change, in order."""

    results: list[AlterConfigsResult]
    token: Token


class ProblemField(Reply):
    """What is wrong with one field."""

    pointer: str = Field(description="JSON pointer into the body.")
    detail: str = Field(description="What is wrong with it, and the way out.")


class Problem(Reply):
    """Why the whole request was refused (RFC 9457)."""

    type: str = Field(description="A URN with the code in it.")
    title: str = Field(description="The code in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, and what to do about it, for people to read.")
    code: str = Field(description="Kafka's error name, or Klamm's where Kafka has none; expect others.")
    error_code: int = Field(description="Kafka's error number; -1 where Kafka has none.")
    retriable: bool = Field(description="Whether the same request may do later what it did not do now.")
    errors: list[ProblemField] | None = Field(None, description="The fields that are wrong, where there are any.")
