"""ACLs as Confluent's REST proxy (v3) writes them: a KafkaAclList, a body of `acls:batch`, or one ACL.

And as Confluent's CLI lists them: `confluent kafka acl list` with `--output json` or `--output yaml`. Words that the
proxy's own list lacks (USER, CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT) stand as Kafka spells them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from app.core.kafka.bindings import AclBinding, NewAcl
from app.formats.acl_entries import MAX_SHOWN, Entry, Problem, acl_of
from app.formats.acl_json import binding_json, object_of_texts, write_json_list
from app.formats.json_walk import JsonWalk, Pairs
from app.formats.lines import TextFault
from app.formats.reading import Reading
from app.formats.source import Outline, Source
from app.formats.yaml_documents import Fields, Items, line_of
from app.formats.yaml_resources import Part

_ACL_FIELDS = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
_ABOUT = ("kind", "metadata", "cluster_id")
"""Fields of a reply besides the ACL; they are ignored."""

_NO_HOST = "`host`: the field is missing"
_CLOUD = "Confluent's CLI leaves it out for Confluent Cloud: list the ACLs with REST, GET /kafka/v3/clusters/<id>/acls"
_KINDS = ("KafkaAcl", "KafkaAclList")


def is_confluent(outline: Outline) -> bool:
    return outline.has("data", kind="[") or (outline.has("permission") and not outline.has("permission_type"))


def read_confluent(source: Source, _: Reading) -> Iterator[Entry]:
    return _entries(source.json()) if source.is_json else _yaml_entries(source)


def write_confluent(bindings: Sequence[AclBinding], out: TextIO) -> None:
    write_json_list("data", (binding_json(each, permission="permission") for each in bindings), out)


def _entries(walk: JsonWalk) -> Iterator[Entry]:
    if walk.next() == "[":
        yield from _listed(walk)
        walk.end()
        return
    first_line, start = walk.line_here(), walk.at
    is_list = False
    others: list[tuple[int, str]] = []
    for line, name in walk.members():
        if name == "data":
            is_list = True
            yield from _listed(walk)
            continue
        problem = _about(name, walk.value())
        if problem is not None:
            yield line, [problem]
        if name not in _ABOUT:
            others.append((line, name))
    whole = walk.since(start)
    walk.end()
    if not is_list:
        yield first_line, _acl(whole)
        return
    for line, name in others:
        yield line, [f"`{name[:MAX_SHOWN]}`: there is no such field; remove it"]


def _listed(walk: JsonWalk) -> Iterator[Entry]:
    for line, item in walk.raw_items():
        yield line, _acl(item)


def _about(name: object, value: object) -> str | None:
    if name == "kind" and value not in _KINDS:
        return "`kind`: neither KafkaAclList nor KafkaAcl; give the REST proxy's reply to a list of ACLs"
    if name == "metadata" and isinstance(value, Pairs) and dict(value).get("next") is not None:
        return "`next`: there are more pages; give the ACLs of all of them, without this field"
    return None


def _acl(text: bytes) -> NewAcl | list[str]:
    found = object_of_texts(text, required=_ACL_FIELDS, known=_ACL_FIELDS, passed_over=_ABOUT)
    return _told(found) if isinstance(found, list) else _made(found)


def _yaml_entries(source: Source) -> Iterator[Entry]:
    try:
        for document in source.documents():
            if not isinstance(document, Items):
                yield line_of(document), ["not a list; give what `confluent kafka acl list --output yaml` prints"]
                continue
            for item in document.value:
                if not isinstance(item, Fields):
                    yield line_of(item), ["not an ACL; write its fields"]
                    continue
                acl = Part(item)
                acl.allows_only(*_ACL_FIELDS)
                texts = {name: acl.text(name) for name in _ACL_FIELDS}
                told = _told(acl.problems)
                yield acl.line, told or _made(texts)
    except TextFault as fault:
        yield fault.line, [str(fault)]


def _told(problems: list[str]) -> list[str]:
    return [f"{each}; {_CLOUD}" if each == _NO_HOST else each for each in problems]


def _made(texts: Mapping[str, str]) -> NewAcl | list[Problem]:
    return acl_of(**{name: texts[_CALLED.get(name, name)] for name in AclBinding._fields}, called=_CALLED)


_CALLED = {"permission_type": "permission"}
