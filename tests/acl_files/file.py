"""Files of ACLs, and what a test knows of each: its ACLs, and where in the text each name stands."""

import io
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

from app.core.kafka.bindings import AclBinding, NewAcl
from app.formats.registry import AclFormat
from tests.acl_files.trees import Tree

LETTERS = "abcdefghijklmnopqrstuvwxyz"
NAMES = ("principal", "resource_name", "host", "owner", "expires_at")
"""The fields that hold what a person chose."""


class Span(NamedTuple):
    """Where a name stands in a text."""

    start: int
    end: int
    field: str
    word: str


@dataclass(frozen=True)
class AclFile:
    """`trees` are its documents, if it has such, and `text_of` writes them in the style of the file."""

    text: str
    acls: tuple[NewAcl, ...]
    style: str
    trees: tuple[Tree, ...] = ()
    text_of: Callable[[Sequence[Tree]], str] | None = None
    has_bare_hosts: bool = False
    """A comma in one would be a second host, or the end of the cell."""
    is_recognised: bool = True
    """Klamm can tell the format from the content."""
    cluster: str | None = None
    """What the file says of which cluster its ACLs are."""

    def spans(self) -> list[Span]:
        found = [
            Span(*found.span(), field, name)
            for name, field in _words(self.acls).items()
            for found in re.finditer(rf"(?<![A-Za-z0-9_])(?:User:)?{re.escape(name)}(?![A-Za-z0-9_])", self.text)
        ]
        return found + [Span(*each.span(), "host", "*") for each in re.finditer(r"\*", self.text)]


def word(draw: random.Random) -> str:
    return "".join(draw.choices(LETTERS, k=9))


def hard_file(text: str, bindings: Sequence[AclBinding]) -> AclFile:
    """What the format's writer has made of any ACLs."""
    return AclFile(text, tuple(map(NewAcl, bindings)), "its writer's")


def text_of(acl_format: AclFormat, acls: Sequence[NewAcl]) -> str:
    out = io.StringIO(newline="")
    acl_format.write(acls, out)
    return out.getvalue()


def _words(acls: Sequence[NewAcl]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for each in acls:
        b = each.binding
        found |= {b.principal.removeprefix("User:"): "principal", b.resource_name: "resource_name"}
        found |= {} if b.host == "*" else {b.host: "host"}
        found |= {each.owner: "owner"} if isinstance(each.owner, str) else {}
        if isinstance(each.expires_at, datetime):
            found[shown_end(each.expires_at)] = "expires_at"
    return found


def shown_end(ends: datetime) -> str:
    return ends.strftime("%Y-%m-%dT%H:%M:%SZ")


Drawn: TypeAlias = Callable[[AclFormat, Sequence[NewAcl], random.Random], AclFile]
"""Writes these ACLs in one of the styles of a format."""
