"""The properties that can change while Klamm runs: their parsers, and Kafka's texts for what they refuse.

A value is text as an operator writes it, from the start-up settings or from a stored ConfigRecord; None and the
property's absence mean its default.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.core.kafka.errors import InvalidRequestException

SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
EARLY_START_LISTENERS = "early.start.listeners"
MAX_STALENESS_MS = "max.staleness.ms"
AUDIT_LEVEL = "audit.level"

CONFIG_NAMES: tuple[str, ...] = (SUPER_USERS, ALLOW_EVERYONE, EARLY_START_LISTENERS, MAX_STALENESS_MS, AUDIT_LEVEL)
AUDIT_LEVELS: tuple[str, ...] = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF")
_JAVA_TRIMS = "".join(map(chr, range(0x21)))
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z")
_LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class AuthorizerConfig:
    """The properties, parsed. `max_staleness_ms` is in milliseconds; None turns the check off."""

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_found: bool = False
    early_start_listeners: frozenset[str] = frozenset()
    max_staleness_ms: int | None = None
    audit_level: str = "INFO"


def parse_configs(values: Mapping[str, str | None]) -> AuthorizerConfig:
    """The configuration that these properties spell. Raises InvalidRequestException for the first that is invalid."""
    for name, value in values.items():
        validate_config(name, value)
    return AuthorizerConfig(
        super_users=_super_users(values.get(SUPER_USERS)),
        allow_everyone_if_no_acl_found=_allow_everyone(values.get(ALLOW_EVERYONE)),
        early_start_listeners=_listeners(values.get(EARLY_START_LISTENERS)),
        max_staleness_ms=_max_staleness_ms(values.get(MAX_STALENESS_MS)),
        audit_level=_audit_level(values.get(AUDIT_LEVEL)),
    )


def validate_config(name: str, value: str | None) -> None:
    """Raise InvalidRequestException unless the property exists and can take this value."""
    parser = _PARSERS.get(name)
    if parser is None:
        raise InvalidRequestException(f"unknown property `{name}`; the properties are {', '.join(CONFIG_NAMES)}")
    if value is not None and "\0" in value:
        raise InvalidRequestException(f"the value of `{name}` contains U+0000, which the store can't keep")
    parser(value)


def effective_config(startup: AuthorizerConfig, overrides: Mapping[str, str]) -> AuthorizerConfig:
    """The start-up configuration under the stored values; names that this version does not know have no effect."""
    known = {name: value for name, value in overrides.items() if name in CONFIG_NAMES}
    return parse_configs({**describe(startup), **known})


def describe(config: AuthorizerConfig) -> dict[str, str]:
    """Every property as text that `parse_configs` reads back to the same configuration."""
    staleness = config.max_staleness_ms
    return {
        SUPER_USERS: ";".join(sorted(config.super_users)),
        ALLOW_EVERYONE: "true" if config.allow_everyone_if_no_acl_found else "false",
        EARLY_START_LISTENERS: ",".join(sorted(config.early_start_listeners)),
        MAX_STALENESS_MS: "" if staleness is None else str(staleness),
        AUDIT_LEVEL: config.audit_level,
    }


def _super_users(value: str | None) -> frozenset[str]:
    users = _parts(value, ";")
    for user in users:
        if ":" not in user:
            raise InvalidRequestException(f"expected a string in format principalType:principalName but got {user}")
    return frozenset(users)


def _allow_everyone(value: str | None) -> bool:
    return value is not None and value.strip(_JAVA_TRIMS).lower() == "true"


def _listeners(value: str | None) -> frozenset[str]:
    return frozenset(_parts(value, ","))


def _max_staleness_ms(value: str | None) -> int | None:
    text = "" if value is None else value.strip(_JAVA_TRIMS)
    if not text:
        return None
    if _INTEGER.match(text) is None or int(text) > _LONG_MAX:
        raise _refusal(MAX_STALENESS_MS, text, "Not a number of type LONG")
    if int(text) < 1:
        raise _refusal(MAX_STALENESS_MS, text, "Value must be at least 1")
    return int(text)


def _audit_level(value: str | None) -> str:
    if value is None:
        return AuthorizerConfig().audit_level
    level = value.strip(_JAVA_TRIMS).upper()
    if level not in AUDIT_LEVELS:
        raise _refusal(AUDIT_LEVEL, value, f"String must be one of (case insensitive): {', '.join(AUDIT_LEVELS)}")
    return level


def _parts(value: str | None, separator: str) -> list[str]:
    trimmed = (part.strip(_JAVA_TRIMS) for part in (value or "").split(separator))
    return [part for part in trimmed if part]


def _refusal(name: str, value: str, why: str) -> InvalidRequestException:
    return InvalidRequestException(f"Invalid value {value} for configuration {name}: {why}")


_PARSERS: dict[str, Callable[[str | None], object]] = {
    SUPER_USERS: _super_users,
    ALLOW_EVERYONE: _allow_everyone,
    EARLY_START_LISTENERS: _listeners,
    MAX_STALENESS_MS: _max_staleness_ms,
    AUDIT_LEVEL: _audit_level,
}
