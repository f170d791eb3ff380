"""Saved plans: JSON that `apply --plan` takes, so that what was looked at is what is done."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from app.client.faults import UsageError
from app.client.planning import Plan, Prune
from app.client.replies import binding_body
from app.core.bindings import AclBinding
from app.core.errors import InvalidRequestException
from app.core.token import Token
from app.core.validation import validate_new_acl

_VERSION = 1
_MAX_BYTES = 512 * 1024 * 1024
_COUNTS = ("unchanged", "left_alone", "prunable")
_FIELDS = {"klamm_plan", "url", "token", "prune", "create", "delete", *_COUNTS}
_PRUNE_FIELDS = {"wanted", "principals", "prefixes"}
_BINDING_FIELDS = tuple(AclBinding.__dataclass_fields__)


def save_plan(path: str, url: str, plan: Plan) -> None:
    """Write the plan; whoever reads the file meets all of it or none. Raises UsageError if it can't be written."""
    body = {
        "klamm_plan": _VERSION,
        "url": url,
        "token": plan.token,
        "prune": {
            "wanted": plan.prune.wanted,
            "principals": sorted(plan.prune.principals),
            "prefixes": list(plan.prune.prefixes),
        },
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
        body = json.loads(raw, object_pairs_hook=_object) if len(raw) <= _MAX_BYTES else None
        if isinstance(body, dict) and set(body) == _FIELDS and _count(body["klamm_plan"]) == _VERSION:
            return _text(body["url"]), _plan(body)
    except (ValueError, KeyError, TypeError, RecursionError, InvalidRequestException):
        pass
    raise UsageError(f"--plan: `{path}` is no plan that this version of klamm has saved; make it with plan --save")


def check_plan(path: str, plan: Plan, acls: frozenset[AclBinding]) -> None:
    """Raises UsageError unless this plan can have been made of these ACLs, which are those as of its token."""
    wrong = next(_misfits(plan, acls), None)
    if wrong is not None:
        raise UsageError(f"--plan: `{path}` does not fit the ACLs that it was made of: {wrong}; plan again")


def _misfits(plan: Plan, acls: frozenset[AclBinding]) -> Iterator[str]:
    if not acls.issuperset(plan.delete):
        yield "it deletes what is not there"
    if not acls.isdisjoint(plan.create):
        yield "it creates what is there"
    if not all(map(plan.prune.holds, plan.delete)):
        yield "it deletes what its `prune` leaves alone"
    prunable = sum(map(plan.prune.holds, acls))
    if plan.prunable != prunable:
        yield f"its `prunable` is not {prunable}"
    if plan.unchanged + plan.left_alone + len(plan.delete) != len(acls):
        yield f"its `unchanged`, `left_alone` and deletes do not make up {len(acls)} ACLs"


def _plan(body: Mapping[str, object]) -> Plan:
    """Raises KeyError, TypeError, ValueError or InvalidRequestException for what is none."""
    token = str(Token.parse(_text(body["token"])))
    create, delete = _bindings(body["create"]), _bindings(body["delete"])
    if len({*create, *delete}) != len(create) + len(delete):
        raise ValueError
    return Plan(token, _prune(body["prune"]), create, delete, *(_count(body[name]) for name in _COUNTS))


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _prune(value: object) -> Prune:
    if not isinstance(value, dict) or set(value) != _PRUNE_FIELDS or not isinstance(value["wanted"], bool):
        raise TypeError
    principals, prefixes = (map(_text, _list(value[name])) for name in ("principals", "prefixes"))
    return Prune(value["wanted"], frozenset(principals), tuple(prefixes))


def _bindings(value: object) -> tuple[AclBinding, ...]:
    return tuple(map(_binding, _list(value)))


def _binding(value: object) -> AclBinding:
    if not isinstance(value, dict) or set(value) != set(_BINDING_FIELDS):
        raise TypeError
    binding = AclBinding.from_words(_text(value[name]) for name in _BINDING_FIELDS)
    if validate_new_acl(binding) is not None:
        raise ValueError
    return binding


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
