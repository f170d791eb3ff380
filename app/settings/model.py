"""The settings of one process: read once, validated, frozen.

A property such as `super.users` comes from a flag, the variable KLAMM_SUPER_USERS, the file that a variable
KLAMM_..._FILE names (secrets only), or `klamm.toml` in the working folder: the first that has it wins. Unknown names
are refused.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_bytes
from typing import Annotated, Any, Literal, Self
from uuid import uuid4

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from app.core.kafka.configs import AuthorizerConfig, describe, parse_configs
from app.core.kafka.errors import InvalidRequestException
from app.formats.command_errors import UsageError
from app.formats.database_url import DatabaseUrl
from app.settings.callers import (
    CallerSettings,
    IssuerSettings,
    callers_without_proof,
    check_callers,
    reason_of,
    table_fault,
)
from app.settings.sources import (
    FLAGS,
    PREFIX,
    TABLES,
    TOML_FILE,
    Environment,
    property_of,
    refuse_unknown_variables,
    secret_files,
    toml_fields,
    variable_of,
)
from app.settings.upstream import check_upstream, upstream_urls


def _kafka_property(attribute: str) -> BeforeValidator:
    """Parses one of Kafka's own properties as core does, so that it means the same here and in a ConfigRecord."""
    name = attribute.replace("_", ".")

    def parse(value: object) -> object:
        if isinstance(value, bool):
            value = str(value).lower()
        if not isinstance(value, str | int):
            raise ValueError("expected text")  # noqa: TRY004 - pydantic reports ValueError only
        try:
            return getattr(parse_configs({name: str(value)}), attribute)
        except InvalidRequestException as refusal:
            raise ValueError(refusal.message) from None

    return BeforeValidator(parse)


def _true_or_false(value: object) -> object:
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise ValueError("expected true or false")  # noqa: TRY004 - pydantic reports ValueError only
    return value


def _not_empty(value: object) -> object:
    if value == "":
        raise ValueError("is empty; leave it out for the default")
    if isinstance(value, bool):
        # To pydantic true is the number 1.
        raise ValueError("expected text or a number, not true or false")  # noqa: TRY004 - it reports ValueError only
    return value


def _default_log_format() -> Literal["JSON", "TEXT"]:
    return "TEXT" if sys.stderr is not None and sys.stderr.isatty() else "JSON"


Given = BeforeValidator(_not_empty)
Milliseconds = Annotated[int, Given, Field(ge=1, le=300_000)]
_DatabaseUrl = BeforeValidator(lambda value: DatabaseUrl.parse(value) if isinstance(value, str) else value)
_Urls = BeforeValidator(upstream_urls)
_Upper = BeforeValidator(lambda word: str(word).strip().upper())


class Settings(BaseSettings):
    """Every property of Klamm; a field is named as its property, with underscores for dots."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        extra="forbid",
        frozen=True,
        enable_decoding=False,
        hide_input_in_errors=True,
        validate_default=False,
        arbitrary_types_allowed=True,
    )

    database_url: Annotated[DatabaseUrl | None, _DatabaseUrl, Given] = None
    """DSN of your own PostgreSQL; without it an embedded one is run below `data_dir`."""
    upstream_urls: Annotated[tuple[str, ...], _Urls] = ()
    """Services to follow instead of a database, the first of them that can be reached."""
    upstream_token_file: Annotated[Path | None, Given] = None
    """Read for each request."""
    upstream_ca_file: Annotated[Path | None, Given] = None
    upstream_certificate: Annotated[Path | None, Given] = None
    upstream_key: Annotated[Path | None, Given] = None
    data_dir: Annotated[Path, Given] = Path(".klamm")
    postgres_bin: Annotated[Path | None, Given] = None
    """Folder of initdb and postgres for the embedded PostgreSQL; without it a wheel's, else those on PATH."""
    host: Annotated[str, Given] = "127.0.0.1"
    port: Annotated[int, Given, Field(ge=0, le=65_535)] = 8080
    """0 takes a free one, which is printed."""
    uds: Annotated[Path | None, Given] = None
    workers: Annotated[int, Given, Field(ge=1, le=64)] = 1
    super_users: Annotated[frozenset[str], _kafka_property("super_users")] = frozenset()
    allow_everyone_if_no_acl_found: Annotated[bool, _kafka_property("allow_everyone_if_no_acl_found")] = False
    early_start_listeners: Annotated[frozenset[str], _kafka_property("early_start_listeners")] = frozenset()
    max_staleness_ms: Annotated[int | None, _kafka_property("max_staleness_ms")] = None
    audit_level: Annotated[str, _kafka_property("audit_level")] = "INFO"
    authorizer_enabled: Annotated[bool, BeforeValidator(_true_or_false)] = True
    cluster_id: Annotated[str | None, Given] = None
    """For a new store; without it the store makes one up."""
    request_timeout_ms: Milliseconds = 5_000
    feed_poll_ms: Milliseconds = 1_000
    feed_retention_ms: Annotated[int | None, Given, Field(ge=60_000)] = None
    """Records of the change feed older than this are trimmed; without it age trims none."""
    feed_retention_records: Annotated[int | None, Given, Field(ge=1_000)] = None
    """All but so many of the newest records are trimmed; without it their number trims none."""
    feed_retention_exporters_ms: Annotated[int, Given, Field(ge=0)] = 30 * 24 * 3_600_000
    """No record is trimmed that `klamm pipeline export` has not taken, unless it was last heard of so long ago."""
    drain_ms: Annotated[int, Given, Field(ge=0, le=300_000)] = 5_000
    """How long after SIGTERM everything is served on, not ready, before connections are closed."""
    docs_enabled: Annotated[bool | None, BeforeValidator(_true_or_false)] = None
    """Whether /docs and /openapi.json are served; without it, only where no callers are configured."""
    console_enabled: Annotated[bool | None, BeforeValidator(_true_or_false)] = None
    """Whether /console is served; without it, only where no callers are configured."""
    console_secure: Annotated[bool, BeforeValidator(_true_or_false)] = False
    """Whether browsers come by TLS that a proxy in front ends, so that the session's cookie is for TLS only."""
    pipeline_home: Annotated[str | None, Given] = None
    """The pipeline's home, whose findings the console shows; it needs a folder."""
    connections_max: Annotated[int, Given, Field(ge=10, le=1_000_000)] = 10_000
    log_level: Annotated[Literal["DEBUG", "INFO", "WARN", "ERROR"], _Upper] = "INFO"
    log_format: Annotated[Literal["JSON", "TEXT"], _Upper] = Field(default_factory=_default_log_format)
    """TEXT where standard error is a terminal, else JSON. Workers get the supervisor's."""
    otel_enabled: Annotated[bool, BeforeValidator(_true_or_false)] = False
    """Needs the extra `otel`."""
    decision_log_path: Annotated[Path | None, Given] = None
    """Folder of the decision log; without it there is none."""
    decision_log_sample: Annotated[float, Given, Field(gt=0, le=1)] = 1.0
    decision_log_rotate_bytes: Annotated[int, Given, Field(ge=1_024)] = 64 * 1024 * 1024
    decision_log_rotate_ms: Annotated[int, Given, Field(ge=100, le=86_400_000)] = 60_000
    decision_log_retention_bytes: Annotated[int, Given, Field(ge=4_096)] = 1024 * 1024 * 1024
    decision_log_buffer_bytes: Annotated[int, Given, Field(ge=65_536)] = 16 * 1024 * 1024
    state_path: Annotated[Path | None, Given] = None
    """Folder where the image is kept, to start from while the source is away; without it nothing is kept."""
    state_max_age_ms: Annotated[int, Given, Field(ge=1_000)] = 24 * 3_600_000
    """A start uses no file whose state was last known to be the source's longer ago than this."""
    state_hmac_key_file: Annotated[Path | None, Given] = None
    """A key of 32 to 4,096 bytes that seals the file, so that nobody else can write one."""
    tls_certificate: Annotated[Path | None, Given] = None
    """File of the certificate to serve with, and of its chain; without it HTTP is not encrypted."""
    tls_key: Annotated[Path | None, Given] = None
    tls_client_ca: Annotated[Path | None, Given] = None
    tokens_file: Annotated[Path | None, Given] = None
    """Read again whenever it changes."""
    callers: Mapping[str, CallerSettings] = Field(default_factory=dict)
    issuers: Mapping[str, IssuerSettings] = Field(default_factory=dict)
    _follower: str = PrivateAttr(default_factory=lambda: uuid4().hex)
    _console_key: bytes = PrivateAttr(default_factory=lambda: token_bytes(32))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base class names it
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (
            init_settings,
            Environment(settings_cls),
            InitSettingsSource(settings_cls, dict(secret_files(_secrets()))),
            InitSettingsSource(settings_cls, toml_fields(settings_cls.model_fields)),
        )

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        check_callers(self.callers, self.issuers)
        check_upstream({name: getattr(self, name) for name in self.model_fields_set})
        if self.decision_log_retention_bytes < self.decision_log_rotate_bytes:
            raise ValueError(
                "`decision.log.retention.bytes` is less than `decision.log.rotate.bytes`, so a single file is too "
                "large; raise the one or lower the other"
            )
        if self.state_path is None and self.state_hmac_key_file is not None:
            raise ValueError(
                "`state.hmac.key.file` is set, but `state.path` is not, so there is no file to seal; set `state.path`, "
                "or leave the key file out"
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("`tls.certificate` and `tls.key` go together; give both or neither")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("`tls.client.ca` needs `tls.certificate` and `tls.key`")
        with_certificate = [name for name, caller in self.callers.items() if caller.certificate is not None]
        if self.tls_client_ca is None and with_certificate:
            raise ValueError(
                f"`callers.{with_certificate[0]}` has a `certificate`, but `tls.client.ca` is not set; set it to the "
                "CAs to trust"
            )
        if self.tokens_file is None and (unproven := callers_without_proof(self.callers)):
            raise ValueError(
                f"`callers.{unproven[0]}` has no credentials; set `tokens.file`, or give it `issuer` or `certificate`"
            )
        if self.tokens_file is not None and not self.callers:
            raise ValueError("`tokens.file` is set, but there is no `[callers.NAME]` that its tokens could be for")
        return self

    @property
    def follower(self) -> str:
        """The service's own id in chains of followers."""
        return self._follower

    @property
    def console_key(self) -> bytes:
        """What seals the console's sessions: the same for all workers of a service, and never kept."""
        return self._console_key

    @property
    def authorizer_config(self) -> AuthorizerConfig:
        return AuthorizerConfig(
            super_users=self.super_users,
            allow_everyone_if_no_acl_found=self.allow_everyone_if_no_acl_found,
            early_start_listeners=self.early_start_listeners,
            max_staleness_ms=self.max_staleness_ms,
            audit_level=self.audit_level,
        )

    @property
    def has_docs(self) -> bool:
        return not self.callers if self.docs_enabled is None else self.docs_enabled

    @property
    def has_console(self) -> bool:
        return not self.callers if self.console_enabled is None else self.console_enabled

    def redacted(self) -> dict[str, str]:
        """Every property as text for a log; secrets show only whether they are set."""
        shown = {property_of(name): _shown(value) for name, value in self if name not in TABLES}
        shown |= {name: ",".join(getattr(self, name)) for name in TABLES}
        return shown | describe(self.authorizer_config)

    def given(self) -> dict[str, str]:
        shown, defaults = self.redacted(), type(self).model_construct()
        changed = [property_of(name) for name, value in self if value != getattr(defaults, name)]
        return {name: shown[name] for name in changed}


def read_settings(flags: Mapping[str, object] | None = None) -> Settings:
    """The settings of this process; `flags` are values from the command line by field name, None where not given.

    Raises UsageError for the first thing that is wrong.
    """
    given: dict[str, Any] = {name: value for name, value in (flags or {}).items() if value is not None}
    refuse_unknown_variables(Settings.model_fields, _secrets())
    try:
        return Settings(**given)
    except ValidationError as invalid:
        fault = invalid.errors(include_url=False)[0]
        path, reason = fault["loc"], reason_of(fault)
        if path and path[0] in TABLES:
            properties = [property_of(name) for name in Settings.model_fields if name not in TABLES]
            raise UsageError(f"`{TOML_FILE}`: {table_fault(fault, properties)}") from None
        if not path and reason.startswith(tuple(f"`{table}." for table in TABLES)):
            raise UsageError(f"`{TOML_FILE}`: {reason}") from None
        raise UsageError(f"{_origin(path, given)}: {reason}") from None


def as_given(text: str, flags: Mapping[str, object]) -> str:
    """The text of a UsageError; properties that it begins with are named as they were set: flag, variable or key."""
    names, _, rest = text.partition(": ")
    fields = [name.replace(".", "_") for name in names.split(", ")]
    if not rest or not all(field in Settings.model_fields for field in fields):
        return text
    given = {name: value for name, value in flags.items() if value is not None}
    return f"{', '.join(_origin([field], given) for field in fields)}: {rest}"


def _origin(path: Sequence[int | str], flags: Mapping[str, object]) -> str:
    if not path:
        # The fault is in a combination of settings, and its text names them.
        return "settings"
    field = str(path[0])
    if field in flags:
        return FLAGS.get(field, f"--{field.replace('_', '-')}")
    for variable in (variable_of(field), f"{variable_of(field)}_FILE"):
        if variable in os.environ:
            return variable
    return f"`{TOML_FILE}`: {property_of(field)}"


def _secrets() -> list[str]:
    return [name for name, field in Settings.model_fields.items() if "DatabaseUrl" in repr(field.annotation)]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)
