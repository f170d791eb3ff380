"""ACLs as Confluent's REST proxy (v3) writes them: a KafkaAclList, a body of `acls:batch`, or one ACL.

Words that its own list lacks (USER, CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT) stand as Kafka spells them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import IO, TextIO

from app.core.bindings import AclBinding
from app.formats.acl_entries import MAX_SHOWN, Entry, binding_from
from app.formats.acl_json import binding_json, object_of_texts, write_json_list
from app.formats.json_walk import JsonWalk, read_walked

_ACL_FIELDS = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
_ABOUT = ("kind", "metadata", "cluster_id")
"""What a reply says besides the ACL; it is passed over."""

_BEGINS = re.compile(rb'\s*\{\s*(?:"(?:data|metadata|cluster_id)"\s*:|"kind"\s*:\s*"KafkaAcl)')
_PERMISSION = re.compile(rb'"permission"\s*:')
_KINDS = ("KafkaAcl", "KafkaAclList")


def is_confluent(head: bytes) -> bool:
    """Whether a file that begins so holds ACLs in Confluent's form."""
    if _BEGINS.match(head) is not None:
        return True
    return head.lstrip()[:1] == b"{" and _PERMISSION.search(head) is not None and b'"permission_type"' not in head


def read_confluent(stream: IO[bytes]) -> Iterator[Entry]:
    """All ACLs of a list or a batch, or the one that the file is."""
    return read_walked(stream, "a Confluent body", _entries)


def write_confluent(bindings: Sequence[AclBinding], out: TextIO) -> None:
    """A body of `acls:batch`, an ACL a line."""
    write_json_list("data", (binding_json(each, permission="permission") for each in bindings), out)


def _entries(walk: JsonWalk) -> Iterator[Entry]:
    walk.next()
    first_line, start = walk.line_here(), walk.at
    seen: set[str] = set()
    others: list[tuple[int, str]] = []
    for line, name in walk.members():
        if name in seen:
            yield line, [f"`{str(name)[:MAX_SHOWN]}`: the key comes more than once; write it once"]
        seen.add(str(name))
        if name == "data":
            for item_line, item in walk.raw_items():
                yield item_line, _binding(item)
            continue
        value = walk.value()
        if name == "kind" and value not in _KINDS:
            yield line, ["`kind`: neither KafkaAclList nor KafkaAcl; give what the proxy answers to a list of ACLs"]
        if name not in _ABOUT:
            others.append((line, str(name)))
    whole = walk.since(start)
    walk.end()
    if "data" not in seen:
        yield first_line, _binding(whole)
        return
    for line, name in others:
        yield line, [f"`{name[:MAX_SHOWN]}`: there is no such field; remove it"]


def _binding(text: bytes) -> AclBinding | list[str]:
    found = object_of_texts(text, required=_ACL_FIELDS, known=_ACL_FIELDS, passed_over=_ABOUT)
    return found if isinstance(found, list) else binding_from(found, permission_type="permission")
