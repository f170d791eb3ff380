"""Plans that `klamm plan --save` has written: what is to be created and deleted, and at which state of a store.

A plan has a hash over all of it. It shows that the plan is the one that was reviewed, not who has written it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated

import msgspec

from app.core.kafka.bindings import NO_TERMS, AclBinding, AclTerms, NewAcl
from app.core.kafka.errors import InvalidRequestException
from app.core.token import Token
from app.formats.acl_entries import acl_of
from app.formats.delete_bodies import unique_keys

VERSION = 3
_VERSION, _HASH = "klamm_plan", "sha256"
COUNTS = ("unchanged", "left_alone", "prunable")

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
    create: tuple[NewAcl, ...]
    change: tuple[tuple[NewAcl, AclTerms], ...]
    """ACLs as they are to be, and their terms before."""
    delete: tuple[NewAcl, ...]
    unchanged: int
    left_alone: int
    prunable: int


def is_saved_plan(head: bytes) -> bool:
    return _BEGINS.match(head) is not None


class SavedPlanFault(Exception):
    """Why a file is refused as a saved plan, and the way out, to follow its name."""


def seal(body: Mapping[str, object]) -> dict[str, object]:
    """The content of a file for a plan with these fields: its version before them, its hash behind them."""
    versioned = {_VERSION: VERSION, **body}
    return {**versioned, _HASH: _hash_of(versioned)}


class _Prune(msgspec.Struct, forbid_unknown_fields=True):
    wanted: bool
    principals: frozenset[str]
    prefixes: tuple[str, ...]


class _Terms(msgspec.Struct, forbid_unknown_fields=True):
    expires_at: str | None
    owner: str | None


class _Acl(_Terms, forbid_unknown_fields=True):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


class _Change(_Acl, forbid_unknown_fields=True):
    before: _Terms


class _File(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    token: str
    prune: _Prune
    create: list[_Acl]
    change: list[_Change]
    delete: list[_Acl]
    unchanged: _Count
    left_alone: _Count
    prunable: _Count


def parse_saved_plan(raw: bytes) -> SavedPlan:
    """Raises SavedPlanFault."""
    try:
        return _plan(msgspec.convert(_fields(json.loads(raw, object_pairs_hook=unique_keys)), _File))
    except (ValueError, KeyError, RecursionError, InvalidRequestException, msgspec.ValidationError):
        raise SavedPlanFault("is not a plan that this version of klamm has saved; make one with plan --save") from None


def _fields(content: object) -> dict[str, object]:
    """What was sealed. Raises SavedPlanFault, or ValueError if it is no plan at all."""
    if not isinstance(content, dict) or type(version := content.get(_VERSION)) is not int:
        raise ValueError
    if version != VERSION:
        other = "an earlier" if version < VERSION else "a later"
        raise SavedPlanFault(f"is a plan that {other} version of klamm has saved; plan again with this one")
    if content.pop(_HASH, None) != _hash_of(content):
        raise SavedPlanFault("has been edited since it was saved; plan again from files with the ACLs that you want")
    del content[_VERSION]
    return content


def _hash_of(body: Mapping[str, object]) -> str:
    """SHA-256, whatever the order of keys and the white space in the file."""
    return sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _plan(file: _File) -> SavedPlan:
    create, changed, delete = (tuple(map(_acl, some)) for some in (file.create, file.change, file.delete))
    before = (_acl(each, each.before).terms_over(NO_TERMS) for each in file.change)
    change = tuple(zip(changed, before, strict=True))
    every = (*create, *changed, *delete)
    if len({each.binding for each in every}) != len(every):
        raise ValueError
    prune, token = file.prune, str(Token.parse(file.token))
    counts = (getattr(file, name) for name in COUNTS)
    return SavedPlan(file.url, token, prune.wanted, prune.principals, prune.prefixes, create, change, delete, *counts)


def _acl(acl: _Acl, terms: _Terms | None = None) -> NewAcl:
    said = terms or acl
    words = {name: getattr(acl, name) for name in AclBinding._fields}
    found = acl_of(**words, expires_at=said.expires_at, owner=said.owner)
    if not isinstance(found, NewAcl):
        raise ValueError  # noqa: TRY004 - it is of a wrong value
    return found
