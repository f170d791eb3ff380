"""Saved plans: JSON that `apply --plan` takes, so that what was looked at is what is done."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from app.client.faults import UsageError
from app.client.planning import Plan
from app.client.replies import binding_body
from app.core.bindings import AclBinding
from app.core.errors import InvalidRequestException
from app.core.token import Token
from app.core.validation import validate_new_acl

_VERSION = 1
_MAX_BYTES = 512 * 1024 * 1024
_COUNTS = ("unchanged", "left_alone", "prunable")
_FIELDS = {"klamm_plan", "url", "token", "create", "delete", *_COUNTS}
_BINDING_FIELDS = tuple(AclBinding.__dataclass_fields__)


def save_plan(path: str, url: str, plan: Plan) -> None:
    """Write the plan; whoever reads the file meets all of it or none. Raises UsageError if it can't be written."""
    body = {
        "klamm_plan": _VERSION,
        "url": url,
        "token": plan.token,
        **{name: getattr(plan, name) for name in _COUNTS},
        "create": [binding_body(each) for each in plan.create],
        "delete": [binding_body(each) for each in plan.delete],
    }
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(body, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"--save: `{path}` can't be written ({error.strerror})") from None


def load_plan(path: str) -> tuple[str, Plan]:
    """The service's URL and the plan. Raises UsageError for what is no saved plan of this version."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--plan: `{path}` can't be read ({error.strerror})") from None
    try:
        body = json.loads(raw) if len(raw) <= _MAX_BYTES else None
        if isinstance(body, dict) and set(body) == _FIELDS and body["klamm_plan"] == _VERSION:
            return str(body["url"]), _plan(body)
    except (ValueError, KeyError, TypeError, RecursionError, InvalidRequestException):
        pass
    raise UsageError(f"--plan: `{path}` is no plan that this version of klamm has saved; make it with plan --save")


def _plan(body: Mapping[str, object]) -> Plan:
    """Raises KeyError, TypeError, ValueError or InvalidRequestException for what is none."""
    token = str(Token.parse(str(body["token"])))
    return Plan(token, _bindings(body["create"]), _bindings(body["delete"]), *(_count(body[name]) for name in _COUNTS))


def _bindings(value: object) -> tuple[AclBinding, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(map(_binding, value))


def _binding(value: object) -> AclBinding:
    if not isinstance(value, dict) or set(value) != set(_BINDING_FIELDS) or not all(map(_is_text, value.values())):
        raise TypeError
    binding = AclBinding.from_words(value[name] for name in _BINDING_FIELDS)
    if validate_new_acl(binding) is not None:
        raise ValueError
    return binding


def _count(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise TypeError
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str)
