"""Plans that `klamm plan --save` has written: what is to be created and deleted, and at which state of a store."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from app.core.kafka.bindings import AclBinding
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.validation import validate_new_acl
from app.core.token import Token

VERSION = 1
COUNTS = ("unchanged", "left_alone", "prunable")

_BINDING_FIELDS = tuple(AclBinding.__dataclass_fields__)
_Count = Annotated[int, msgspec.Meta(ge=0)]
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


class _Prune(msgspec.Struct, forbid_unknown_fields=True):
    wanted: bool
    principals: frozenset[str]
    prefixes: tuple[str, ...]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    klamm_plan: Literal[1]
    url: str
    token: str
    prune: _Prune
    create: list[dict[str, str]]
    delete: list[dict[str, str]]
    unchanged: _Count
    left_alone: _Count
    prunable: _Count


def parse_saved_plan(raw: bytes) -> SavedPlan | None:
    try:
        return _plan(msgspec.convert(json.loads(raw, object_pairs_hook=_object), _File))
    except (ValueError, KeyError, RecursionError, InvalidRequestException, msgspec.ValidationError):
        return None


def _plan(file: _File) -> SavedPlan:
    create, delete = tuple(map(_binding, file.create)), tuple(map(_binding, file.delete))
    if len({*create, *delete}) != len(create) + len(delete):
        raise ValueError
    prune, token = file.prune, str(Token.parse(file.token))
    counts = (getattr(file, name) for name in COUNTS)
    return SavedPlan(file.url, token, prune.wanted, prune.principals, prune.prefixes, create, delete, *counts)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _binding(fields: Mapping[str, str]) -> AclBinding:
    if set(fields) != set(_BINDING_FIELDS):
        raise ValueError
    binding = AclBinding.from_words(fields[name] for name in _BINDING_FIELDS)
    if validate_new_acl(binding) is not None:
        raise ValueError
    return binding
