"""Plans that `klamm plan --save` has written: what is to be created and deleted, and at which state of a store."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.kafka.bindings import AclBinding
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.validation import validate_new_acl
from app.core.token import Token

VERSION = 1
COUNTS = ("unchanged", "left_alone", "prunable")

_FIELDS = {"klamm_plan", "url", "token", "prune", "create", "delete", *COUNTS}
_PRUNE_FIELDS = {"wanted", "principals", "prefixes"}
_BINDING_FIELDS = tuple(AclBinding.__dataclass_fields__)
_BEGINS = re.compile(rb'\s*\{\s*"klamm_plan"\s*:')


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan as it stands in its file. It is of the service at `url` as of `token`."""

    url: str
    token: str
    prune_wanted: bool
    prune_principals: frozenset[str]
    prune_prefixes: tuple[str, ...]
    create: tuple[AclBinding, ...]
    delete: tuple[AclBinding, ...]
    unchanged: int
    left_alone: int
    prunable: int


def is_saved_plan(head: bytes) -> bool:
    return _BEGINS.match(head) is not None


def parse_saved_plan(raw: bytes) -> SavedPlan | None:
    """The plan; None if it is not one that this version can read."""
    try:
        body = json.loads(raw, object_pairs_hook=_object)
        if isinstance(body, dict) and set(body) == _FIELDS and _count(body["klamm_plan"]) == VERSION:
            return _plan(body)
    except (ValueError, KeyError, TypeError, RecursionError, InvalidRequestException):
        pass
    return None


def _plan(body: Mapping[str, object]) -> SavedPlan:
    """Raises KeyError, TypeError, ValueError or InvalidRequestException for an invalid plan."""
    url, token = _text(body["url"]), str(Token.parse(_text(body["token"])))
    create, delete = _bindings(body["create"]), _bindings(body["delete"])
    if len({*create, *delete}) != len(create) + len(delete):
        raise ValueError
    prune = body["prune"]
    if not isinstance(prune, dict) or set(prune) != _PRUNE_FIELDS or not isinstance(prune["wanted"], bool):
        raise TypeError
    principals, prefixes = (tuple(map(_text, _list(prune[name]))) for name in ("principals", "prefixes"))
    counts = (_count(body[name]) for name in COUNTS)
    return SavedPlan(url, token, prune["wanted"], frozenset(principals), prefixes, create, delete, *counts)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


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
