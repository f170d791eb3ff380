"""Where settings come from besides flags: KLAMM_ variables, files that hold secrets, `klamm.toml`.

An unknown name is refused, with the nearest one that exists.
"""

import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from pydantic_settings import EnvSettingsSource

from app.core.spelling import nearest
from app.formats.command_errors import UsageError
from app.formats.secret_files import refuse_if_writable

PREFIX = "KLAMM_"
PIPELINE_PREFIX = "KLAMM_PIPELINE_"
"""Variables of `klamm pipeline`, which refuses unknown ones itself."""
TOML_FILE = Path("klamm.toml")
TABLES = ("callers", "issuers")
"""Properties that are tables of tables; they can be set in klamm.toml only."""
FLAGS = {"upstream_urls": "--upstream"}
"""Flags that are not named as their properties."""

# Kubernetes sets these for every service in the namespace, and one may be called klamm.
_SERVICE_LINK = re.compile(r"KLAMM_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_SERVICE_LINK_URL = re.compile(r"(tcp|udp|sctp)://")


class Environment(EnvSettingsSource):
    """The KLAMM_ variables, without those that Kubernetes makes of a service's name."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        links = {name.lower() for name, value in os.environ.items() if _is_service_link(name, value)}
        return {name: value for name, value in super()._load_env_vars().items() if name not in links}


def _is_service_link(name: str, value: str) -> bool:
    if _SERVICE_LINK.fullmatch(name):
        return True
    return re.fullmatch(r"KLAMM_(\w+_)?PORT", name) is not None and _SERVICE_LINK_URL.match(value) is not None


def refuse_unknown_variables(fields: Collection[str], secrets: Collection[str]) -> None:
    known = [variable_of(field) for field in fields if field not in TABLES]
    known += [f"{variable_of(field)}_FILE" for field in secrets]
    for name in sorted(name for name, value in os.environ.items() if not _is_service_link(name, value)):
        if name.upper().startswith(PREFIX) and not name.startswith(PIPELINE_PREFIX) and name not in known:
            raise UsageError(f"{name}: there is no such variable{_nearest(name.upper(), known)}")


def secret_files(secrets: Collection[str]) -> Iterator[tuple[str, str]]:
    for field in secrets:
        variable = f"{variable_of(field)}_FILE"
        path = os.environ.get(variable)
        if path is None:
            continue
        if variable_of(field) in os.environ:
            raise UsageError(f"{variable}: {variable_of(field)} is set as well; set only one of them")
        try:
            secret = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise UsageError(f"{variable}: can't read `{Path(path)}` ({why})") from None
        yield field, secret


def toml_fields(fields: Collection[str]) -> dict[str, object]:
    """What klamm.toml says, by field name. Raises UsageError for what isn't TOML and for unknown keys."""
    try:
        with TOML_FILE.open("rb") as file:
            refuse_if_writable(file, TOML_FILE)
            content = tomllib.loads(file.read().decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        why = f"can't be read ({error.strerror}); let this user read it, or move it away"
        raise UsageError(f"`{TOML_FILE}` {why}") from None
    except UnicodeDecodeError:
        raise UsageError(f"`{TOML_FILE}` is not UTF-8 text; save it as UTF-8") from None
    except ValueError as error:
        raise UsageError(f"`{TOML_FILE}` is not TOML: {error}") from None
    found = {name: content.pop(name) for name in TABLES if name in content}
    known = [property_of(field) for field in fields]
    for name, value in _flat(content):
        if value == {} and any(each.startswith(f"{name}.") for each in known):
            continue
        if name not in known:
            raise UsageError(f"`{TOML_FILE}`: {_unknown(name, known)}")
        found[name.replace(".", "_")] = value
    return found


def _flat(table: Mapping[str, object], path: str = "") -> Iterator[tuple[str, object]]:
    # To TOML the dots of `super.users = ""` are tables within tables; here they are parts of one name.
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _unknown(name: str, known: list[str]) -> str:
    parts = name.split(".")
    table = nearest(parts[0], TABLES, likeness=0.8)
    if table is not None and parts[1:]:
        return f"there is no table `[{parts[0]}.{parts[1]}]`; did you mean `[{table}.{parts[1]}]`?"
    for at in range(1, len(parts) - 1):
        if (swallowed := ".".join(parts[at:])) in known:
            return f"`{swallowed}` is a property of its own; move it above the first `[table]`"
    return f"there is no property `{name}`{_nearest(name, known)}"


def variable_of(field: str) -> str:
    return PREFIX + field.upper()


def property_of(field: str) -> str:
    return field.replace("_", ".")


def _nearest(name: str, known: list[str]) -> str:
    # The prefix, being common to all, would make all of them look alike.
    by_rest = {each.removeprefix(PREFIX): each for each in known}
    meant = nearest(name.removeprefix(PREFIX), by_rest, likeness=0.0)
    return f"; did you mean {by_rest[meant]}?" if meant is not None else ""
