"""The ACLs that a file wants, and those that are there: what a plan is made of."""

import io
import random
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from app.client.http.replies import ServiceError, parse_list, parse_object, parse_text
from app.client.http.service import Service
from app.core.kafka.bindings import AclBinding
from app.core.kafka.configs import CONFIG_NAMES, AuthorizerConfig, parse_configs
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError
from app.formats.registry import format_named, read_entries, unrecognised

MAX_STREAM_BYTES = 64 * 1024 * 1024

_PROBLEMS_SHOWN = 10
_TRIES = 8
_PAUSE_S = 0.2
_FORBIDDEN = (401, 403)


@dataclass(frozen=True, slots=True)
class StoreState:
    """All ACLs and the configuration as of one token. `config` is None if the caller may not read it."""

    acls: frozenset[AclBinding]
    token: str
    config: AuthorizerConfig | None


def read_desired(path: str, format_name: str | None) -> frozenset[AclBinding]:
    """The ACLs of a file in any format that Klamm reads (`-`: standard input).

    Raises UsageError with the first problems if anything of it can't be read.
    """
    try:
        given = None if format_name is None else format_named(format_name)
    except ValueError as error:
        raise UsageError(f"--format: {error}") from None
    try:
        with _opened(path) as raw:
            recognised, entries = read_entries(raw, given)
            found: set[AclBinding] = set()
            problems: list[str] = []
            for line, entry in entries:
                if isinstance(entry, AclBinding):
                    found.add(entry)
                elif recognised is None:
                    raise UsageError(one_line(f"`{path}` {unrecognised(raw)}"))
                else:
                    problems += [f"line {line}: {each}" for each in entry]
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is damaged"
        raise UsageError(f"`{path}` can't be read ({reason})") from None
    if problems:
        raise UsageError(one_line(f"`{path}` can't be planned with: {_some(problems)}"))
    return frozenset(found)


def read_state(service: Service) -> StoreState:
    """What the service has now. Raises ServiceError, also if it changes faster than it can be read."""
    for attempt in range(1, _TRIES + 1):
        config, config_token = _read_config(service)
        listing = service.acls(AclBindingFilter())
        if config_token in (None, listing.token):
            acls = frozenset(each.binding for each in listing.acls)
            _check_words(acls)
            return StoreState(acls, listing.token, config)
        time.sleep(random.uniform(_PAUSE_S / 2, _PAUSE_S) * attempt)  # noqa: S311 - no secret
    raise ServiceError(f"`{service.url}` changes faster than it can be read; try again later")


def _opened(path: str) -> IO[bytes]:
    """The file; what can be read once only, as pipes, is held in memory."""
    if path == "-":
        return _held(sys.stdin.buffer, "standard input")
    file = Path(path).open("rb")  # noqa: SIM115 - closed by who asked for it, or below
    if file.seekable():
        return file
    with file:
        return _held(file, f"`{path}`")


def _held(stream: IO[bytes], name: str) -> IO[bytes]:
    raw = stream.read(MAX_STREAM_BYTES + 1)
    if len(raw) > MAX_STREAM_BYTES:
        raise UsageError(f"{name} is longer than {MAX_STREAM_BYTES} bytes; give a file")
    return io.BytesIO(raw)


def _some(problems: list[str]) -> str:
    more = f"; and {len(problems) - _PROBLEMS_SHOWN} more" if len(problems) > _PROBLEMS_SHOWN else ""
    return "; ".join(problems[:_PROBLEMS_SHOWN]) + more


def _read_config(service: Service) -> tuple[AuthorizerConfig | None, str | None]:
    """The configuration and the token that it is of; neither if the caller may not read it."""
    try:
        reply = service.get("/v1/configs")
    except ServiceError as error:
        if error.status in _FORBIDDEN:
            return None, None
        raise
    values: dict[str, str | None] = {}
    for each in parse_list(reply, "configs"):
        fields = parse_object(each)
        name, value = parse_text(fields, "name"), fields.get("value")
        if name in CONFIG_NAMES and isinstance(value, str):
            values[name] = value
    try:
        return parse_configs(values), parse_text(reply, "token")
    except InvalidRequestException as error:
        raise ServiceError(f"the configuration of `{service.url}` can't be understood ({error.message})") from None


def _check_words(acls: frozenset[AclBinding]) -> None:
    """What this version does not understand it can neither compare nor weigh."""
    for acl in acls:
        if 0 in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type):
            raise ServiceError(
                "the service has ACLs with words that this klamm does not know; use the service's own version"
            )
