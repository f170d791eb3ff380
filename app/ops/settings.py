"""The settings of one process: read once, validated, frozen.

A property such as `super.users` comes from, first found wins: a flag, the variable KLAMM_SUPER_USERS, the file that a
variable KLAMM_..._FILE names (secrets only), `klamm.toml` in the working folder. Whatever is not known is refused.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.core.configs import AuthorizerConfig, describe, parse_configs
from app.core.errors import InvalidRequestException

PREFIX = "KLAMM_"
TOML_FILE = Path("klamm.toml")
# Kubernetes sets these for every service in the namespace, and the service may well be called klamm.
_SERVICE_LINK = re.compile(r"KLAMM_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_SSL_MODES = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})
_SERVICE_LINK_URL = re.compile(r"(tcp|udp|sctp)://")


class SettingsError(Exception):
    """A setting can't be used; one line for the operator that names the flag, variable or key, and the way out."""


def _kafka_property(attribute: str) -> BeforeValidator:
    """The parser that Kafka's own properties have in core, so that they mean the same here and in a ConfigRecord."""
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
    return value


def _postgresql(url: SecretStr) -> SecretStr:
    # INVARIANT: no part of the URL gets into a text, for a slip of the pen can make any part of it the password.
    try:
        parts = urlsplit(url.get_secret_value())
    except ValueError:
        parts = urlsplit("")
    ports = [host.rpartition("]")[2].partition(":")[2] for host in parts.netloc.rpartition("@")[2].split(",")]
    if parts.scheme not in {"postgresql", "postgres"} or not all(port.isdecimal() for port in ports if port):
        raise ValueError(
            "expected postgresql://user:password@host:port/database, a password's special characters written as %40"
        )
    if not set(parse_qs(parts.query).get("sslmode", ())) <= _SSL_MODES:
        raise ValueError(f"its sslmode must be one of {', '.join(sorted(_SSL_MODES))}")
    return url


Given = BeforeValidator(_not_empty)
Milliseconds = Annotated[int, Given, Field(ge=1, le=300_000)]


class Settings(BaseSettings):
    """Every property of Klamm; a field is named as its property, with underscores for dots."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        extra="forbid",
        frozen=True,
        enable_decoding=False,
        hide_input_in_errors=True,
        validate_default=False,
    )

    database_url: Annotated[SecretStr | None, AfterValidator(lambda url: url and _postgresql(url)), Given] = None
    """DSN of your own PostgreSQL; without it an embedded one is run below `data_dir`."""
    data_dir: Annotated[Path, Given] = Path(".klamm")
    postgres_bin: Annotated[Path | None, Given] = None
    """Folder of initdb and postgres for the embedded PostgreSQL; without it a wheel's, else those on PATH."""
    host: Annotated[str, Given] = "127.0.0.1"
    port: Annotated[int, Given, Field(ge=0, le=65_535)] = 8080
    """0 takes a free one, which is printed."""
    uds: Annotated[Path | None, Given] = None
    """A Unix socket to serve on instead of host and port."""
    workers: Annotated[int, Given, Field(ge=1, le=64)] = 1
    """Processes that serve, each a whole replica."""
    super_users: Annotated[frozenset[str], _kafka_property("super_users")] = frozenset()
    allow_everyone_if_no_acl_found: Annotated[bool, _kafka_property("allow_everyone_if_no_acl_found")] = False
    early_start_listeners: Annotated[frozenset[str], _kafka_property("early_start_listeners")] = frozenset()
    max_staleness_ms: Annotated[int | None, _kafka_property("max_staleness_ms")] = None
    audit_level: Annotated[str, _kafka_property("audit_level")] = "INFO"
    authorizer_enabled: Annotated[bool, BeforeValidator(_true_or_false)] = True
    cluster_id: Annotated[str | None, Given] = None
    """Given to the store at its birth; without it the store makes up one."""
    request_timeout_ms: Milliseconds = 5_000
    feed_poll_ms: Milliseconds = 1_000
    feed_retention_ms: Annotated[int | None, Given, Field(ge=60_000)] = None
    """Records of the change feed older than this are trimmed; without it age trims none."""
    feed_retention_records: Annotated[int | None, Given, Field(ge=1_000)] = None
    """All but so many of the newest records are trimmed; without it their number trims none."""
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARN", "ERROR"], BeforeValidator(lambda level: str(level).strip().upper())
    ] = "INFO"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base class names it
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags over variables over secrets in files over klamm.toml."""
        return (
            init_settings,
            _Environment(settings_cls),
            InitSettingsSource(settings_cls, dict(_secret_files())),
            InitSettingsSource(settings_cls, _toml_fields()),
        )

    @property
    def authorizer_config(self) -> AuthorizerConfig:
        """The start-up values of the properties that `alterConfigs` can change."""
        return AuthorizerConfig(
            super_users=self.super_users,
            allow_everyone_if_no_acl_found=self.allow_everyone_if_no_acl_found,
            early_start_listeners=self.early_start_listeners,
            max_staleness_ms=self.max_staleness_ms,
            audit_level=self.audit_level,
        )

    def redacted(self) -> dict[str, str]:
        """Every property as text for a log; secrets show only whether they are set."""
        shown = {_property_of(name): _shown(value) for name, value in self}
        return shown | describe(self.authorizer_config)


def read_settings(flags: Mapping[str, object] | None = None) -> Settings:
    """The settings of this process. `flags` are values from the command line by field name; None: not given.

    Raises SettingsError for the first thing that is wrong.
    """
    given: dict[str, Any] = {name: value for name, value in (flags or {}).items() if value is not None}
    _refuse_unknown_variables()
    try:
        return Settings(**given)
    except ValidationError as invalid:
        fault = invalid.errors()[0]
        field = str(fault["loc"][0])
        # Klamm's and Kafka's own texts are the cause; pydantic's own come as a sentence.
        reason = fault.get("ctx", {}).get("error") or fault["msg"].replace("Input", "it", 1)
        raise SettingsError(f"{_origin(field, given)}: {reason}") from None


class _Environment(EnvSettingsSource):
    """The KLAMM_ variables, without those that Kubernetes makes of a service's name."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        links = {name.lower() for name, value in os.environ.items() if _is_service_link(name, value)}
        return {name: value for name, value in super()._load_env_vars().items() if name not in links}


def _is_service_link(name: str, value: str) -> bool:
    if _SERVICE_LINK.fullmatch(name):
        return True
    return re.fullmatch(r"KLAMM_(\w+_)?PORT", name) is not None and _SERVICE_LINK_URL.match(value) is not None


def _refuse_unknown_variables() -> None:
    known = [_variable_of(field) for field in Settings.model_fields]
    known += [f"{_variable_of(field)}_FILE" for field in _secrets()]
    for name in sorted(name for name, value in os.environ.items() if not _is_service_link(name, value)):
        if name.upper().startswith(PREFIX) and name not in known:
            raise SettingsError(f"{name}: there is no such variable{_nearest(name.upper(), known)}")


def _secret_files() -> Iterator[tuple[str, str]]:
    for field in _secrets():
        variable = f"{_variable_of(field)}_FILE"
        path = os.environ.get(variable)
        if path is None:
            continue
        if _variable_of(field) in os.environ:
            raise SettingsError(f"{variable}: {_variable_of(field)} is set, too; give one of them")
        yield field, _secret_in(variable, Path(path))


def _secret_in(variable: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SettingsError(f"{variable}: can't read `{path}` ({why})") from None


def _toml_fields() -> dict[str, object]:
    """What klamm.toml says, by field name. Raises SettingsError for what isn't TOML and for keys that are unknown."""
    try:
        tables = tomllib.loads(TOML_FILE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"`{TOML_FILE}` can't be read: {error}") from None
    known = [_property_of(field) for field in Settings.model_fields]
    fields = {}
    for name, value in _flat(tables):
        if name not in known:
            raise SettingsError(f"`{TOML_FILE}`: there is no property `{name}`{_nearest(name, known)}")
        fields[name.replace(".", "_")] = value
    return fields


def _flat(table: Mapping[str, object], path: str = "") -> Iterator[tuple[str, object]]:
    # To TOML the dots of `super.users = ""` are tables within tables; here they are parts of one name.
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _origin(field: str, flags: Mapping[str, object]) -> str:
    if field in flags:
        return f"--{field.replace('_', '-')}"
    for variable in (_variable_of(field), f"{_variable_of(field)}_FILE"):
        if variable in os.environ:
            return variable
    return f"`{TOML_FILE}`: {_property_of(field)}"


def _secrets() -> list[str]:
    return [name for name, field in Settings.model_fields.items() if "SecretStr" in repr(field.annotation)]


def _variable_of(field: str) -> str:
    return PREFIX + field.upper()


def _property_of(field: str) -> str:
    return field.replace("_", ".")


def _nearest(name: str, known: list[str]) -> str:
    # The prefix, being common to all, would make all of them look alike.
    by_rest = {each.removeprefix(PREFIX): each for each in known}
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), by_rest, n=1, cutoff=0.0)[0]
    return f"; did you mean {by_rest[nearest]}?"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
