"""Files of ACLs as people and tools keep them, in drawn styles, and what a test knows of each.

That is its ACLs, and where in the text each name stands. All names are drawn words that stand nowhere else.
"""

import io
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, permutations
from typing import NamedTuple

from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.registry import AclFormat
from tests.acl_trees import (
    Map,
    Tree,
    block_yaml,
    compact_json,
    json_tree,
    pretty_json,
    shuffled,
    yaml_style,
    yaml_trees,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE)
PERMISSIONS = (AclPermissionType.DENY, AclPermissionType.ALLOW)
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


def plain_set(draw: random.Random, most: int = 4) -> list[AclBinding]:
    """ACLs of plain words, some of one principal, and some of one resource."""
    users = [f"User:{word(draw)}" for _ in range(2)]
    names = [word(draw) for _ in range(3)]
    found = [
        AclBinding(
            draw.choice(TYPES),
            draw.choice(names) if draw.random() < 0.3 else word(draw),
            draw.choice(PATTERNS),
            draw.choice(users),
            "*" if draw.random() < 0.3 else word(draw),
            draw.choice(OPERATIONS),
            draw.choice(PERMISSIONS),
        )
        for _ in range(draw.randrange(1, most + 1))
    ]
    if draw.random() < 0.4:
        found.append(found[0]._replace(operation=AclOperation.DELETE))
    return list(dict.fromkeys(found))


def drawn_file(acl_format: AclFormat, draw: random.Random) -> AclFile:
    """A file of the format in one of its styles."""
    acls = [NewAcl(each) for each in plain_set(draw)]
    if acl_format.says_terms and draw.random() < 0.5:
        acls = [_with_terms(each, draw) for each in acls]
    return _DRAWN[acl_format.name](acl_format, acls, draw)


def hard_file(text: str, bindings: Sequence[AclBinding]) -> AclFile:
    """What the format's writer has made of any ACLs."""
    return AclFile(text, tuple(map(NewAcl, bindings)), "its writer's")


def _with_terms(acl: NewAcl, draw: random.Random) -> NewAcl:
    ends = datetime(2090 + draw.randrange(9), draw.randrange(1, 13), draw.randrange(1, 29), 12, tzinfo=UTC)
    return NewAcl(acl.binding, *draw.choice(((ends, word(draw)), (ends, None), (None, word(draw)))))


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


# JSON and YAML


def _trees(acl_format: AclFormat, acls: Sequence[NewAcl]) -> list[Tree]:
    """The documents that the format's writer makes of them."""
    text = _text_of(acl_format, acls)
    if acl_format.name == "jsonl":
        return [json_tree(line) for line in text.splitlines()]
    return yaml_trees(text) if acl_format.name in ("strimzi", "jikkou") else [json_tree(text)]


_Wrap = Callable[[list[Tree], random.Random], list[Tree]]
_Drawn = Callable[[AclFormat, Sequence[NewAcl], random.Random], AclFile]


def _of_trees(*, is_yaml: bool = False, is_lines: bool = False, wraps: Mapping[str, _Wrap]) -> _Drawn:
    def drawn(acl_format: AclFormat, acls: Sequence[NewAcl], draw: random.Random) -> AclFile:
        name = draw.choice(list(wraps))
        trees = [shuffled(each, draw) for each in wraps[name](_trees(acl_format, acls), draw)]
        text_of = _lines if is_lines else (_yaml_text if is_yaml else _json_text)(draw)
        return AclFile(
            text_of(trees), tuple(acls), name, tuple(trees), text_of, cluster=_CLUSTERS.get((acl_format.name, name))
        )

    return drawn


_CLUSTERS = {
    ("strimzi", "of a cluster"): "live",
    ("jikkou", "of a provider"): "live",
    ("confluent", "KafkaAclList"): "c-1",
    ("terraform", "of a provider"): "kafka.live",
}


def _lines(trees: Sequence[Tree]) -> str:
    return "".join(f"{compact_json(each)}\n" for each in trees)


def _json_text(draw: random.Random) -> Callable[[Sequence[Tree]], str]:
    style, end = draw.randrange(4), draw.choice(("\n", "\n", "\r\n"))

    def text_of(trees: Sequence[Tree]) -> str:
        (tree,) = trees
        if style < 2:
            return compact_json(tree, *((": ", ", ") if style else (":", ","))) + "\n"
        return pretty_json(tree, step=2 * (style - 1)).text.replace("\n", end)

    return text_of


def _yaml_text(draw: random.Random) -> Callable[[Sequence[Tree]], str]:
    style, end = yaml_style(draw), draw.choice(("\n", "\n", "\r\n"))
    begins, as_json = draw.random() < 0.5, draw.random() < 0.1

    def text_of(trees: Sequence[Tree]) -> str:
        if as_json and len(trees) == 1:
            return pretty_json(trees[0]).text
        documents = [block_yaml(each, style).text for each in trees]
        return (("---\n" if begins else "") + "---\n".join(documents)).replace("\n", end)

    return text_of


def _as_it_is(trees: list[Tree], _: random.Random) -> list[Tree]:
    return trees


def _inner(tree: Tree) -> list[Tree]:
    """The list that is the only value."""
    assert isinstance(tree, Map)
    found = tree[0][1]
    assert isinstance(found, list)
    return found


def _array(trees: list[Tree], _: random.Random) -> list[Tree]:
    return [_inner(trees[0])]


def _body(trees: list[Tree], draw: random.Random) -> list[Tree]:
    return [Map([("timeout_ms", 1000), ("bindings", _inner(trees[0])), ("comment", word(draw))])]


def _rpk_list(trees: list[Tree], _: random.Random) -> list[Tree]:
    filters = Map(
        (name, "ANY") for name in ("principal", "host", "resource_type", "resource_name", "operation", "permission")
    )
    return [Map([("filters", [Map([*filters, ("message", "")])]), ("matches", _inner(trees[0]))])]


def _kafka_acl_list(trees: list[Tree], _: random.Random) -> list[Tree]:
    about = Map([("self", "http://rest:8082/v3/clusters/c-1/acls"), ("next", None)])
    items = [
        Map(
            [
                ("kind", "KafkaAcl"),
                ("metadata", Map(about[:1])),
                ("cluster_id", "c-1"),
                *(each if isinstance(each, Map) else ()),
            ]
        )
        for each in _inner(trees[0])
    ]
    return [Map([("kind", "KafkaAclList"), ("metadata", about), ("data", list(items))])]


def _resource_list(version: str, kind: str) -> _Wrap:
    return lambda trees, _: [Map([("apiVersion", version), ("kind", kind), ("items", trees)])]


def _of_a_cluster(field: str, name: str) -> _Wrap:
    more = (field, Map([(name, "live")]))
    return lambda trees, _: [
        Map(
            (key, Map([*value, more]) if key == "metadata" and isinstance(value, Map) else value) for key, value in each
        )
        for each in trees
        if isinstance(each, Map)
    ]


def _beside_a_topic(version: str) -> _Wrap:
    """Among resources that are passed over."""

    def wrap(trees: list[Tree], draw: random.Random) -> list[Tree]:
        topic = Map(
            [
                ("apiVersion", version),
                ("kind", "KafkaTopic"),
                ("metadata", Map([("name", word(draw))])),
                ("spec", Map([("partitions", 1)])),
            ]
        )
        return [topic, *trees]

    return wrap


def _with_old_operation(trees: list[Tree], _: random.Random) -> list[Tree]:
    """`operation` in place of `operations`, as Strimzi had it."""

    def changed(tree: Tree) -> Tree:
        if isinstance(tree, Map):
            pairs = ((key, changed(value)) for key, value in tree)
            return Map(
                ("operation", value[0])
                if key == "operations" and isinstance(value, list) and len(value) == 1
                else (key, value)
                for key, value in pairs
            )
        return [changed(each) for each in tree] if isinstance(tree, list) else tree

    return [changed(each) for each in trees]


def _terraform_acls(trees: list[Tree]) -> list[tuple[str, Map]]:
    assert isinstance(trees[0], Map)
    kinds = trees[0][0][1]
    assert isinstance(kinds, Map)
    acls = kinds[0][1]
    assert isinstance(acls, Map)
    return [(name, each) for name, each in acls if isinstance(each, Map)]


def _with_other_blocks(trees: list[Tree], _: random.Random) -> list[Tree]:
    terraform = Map([("required_providers", Map([("kafka", Map([("source", "Mongey/kafka")]))]))])
    topics = Map([("a_topic", Map([("name", "a"), ("partitions", 1), ("replication_factor", 1)]))])
    kinds = Map([("kafka_topic", topics), ("kafka_acl", Map(_terraform_acls(trees)))])
    return [Map([("terraform", terraform), ("resource", kinds)])]


def _of_a_provider(trees: list[Tree], _: random.Random) -> list[Tree]:
    acls = Map((name, Map([*acl, ("provider", "kafka.live")])) for name, acl in _terraform_acls(trees))
    return [Map([("resource", Map([("kafka_acl", acls)]))])]


def _state(trees: list[Tree], _: random.Random) -> list[Tree]:
    return [
        Map(
            [
                ("format_version", "1.0"),
                ("terraform_version", "1.9.8"),
                ("values", Map([("root_module", _module(trees))])),
            ]
        )
    ]


def _module(trees: list[Tree]) -> Map:
    resources: list[Tree] = [
        Map(
            [
                ("address", f"kafka_acl.{name}"),
                ("mode", "managed"),
                ("type", "kafka_acl"),
                ("name", name),
                ("provider_name", "registry.terraform.io/mongey/kafka"),
                ("schema_version", 0),
                ("values", Map([*acl, ("id", f"id-{number}")])),
                ("sensitive_values", Map()),
            ]
        )
        for number, (name, acl) in enumerate(_terraform_acls(trees))
    ]
    return Map([("resources", resources)])


# Lines of text


def _with_signs(acls: Sequence[NewAcl], comma: str, draw: random.Random) -> list[NewAcl]:
    """Their principals are distinguished names, or have other signs, and so have their groups."""
    endings = (f"{comma}O=a b", f"{comma}O=a b", " b", ";n", ":x", "`", ")", "=f")
    return [_renamed(each, draw.choice(endings), draw.choice(endings)) for each in acls]


def _renamed(acl: NewAcl, of_principal: str, of_group: str) -> NewAcl:
    b = acl.binding
    name = b.resource_name if b.resource_type is ResourceType.TOPIC else f"{b.resource_name[::-1]}{of_group}"
    principal = f"User:CN={b.principal.removeprefix('User:')}{of_principal}"
    return acl._replace(binding=b._replace(principal=principal, resource_name=name))


_COLUMNS = ("Principal", "ResourceType", "PatternType", "ResourceName", "Operation", "PermissionType", "Host")
_TEXTS = ("Principal", "ResourceName", "Host")
_ORDERS = [
    each
    for each in permutations(_COLUMNS)
    if not any(one in _TEXTS and other in _TEXTS for one, other in pairwise(each))
]
"""Those in which no text stands beside another one, so that it is clear to which a comma belongs."""


def _csv(acl_format: AclFormat, acls: Sequence[NewAcl], draw: random.Random) -> AclFile:
    columns: Sequence[str] = _COLUMNS
    has_terms = acls[0].owner is not KEEP
    style = draw.choice(("its writer's", "columns in any order", "no header", "quoted", "kafbat UI's"))
    if style == "its writer's":
        said = acls if has_terms else [NewAcl(each.binding) for each in acls]
        return AclFile(_text_of(acl_format, acls), tuple(said), style, has_bare_hosts=True)
    if style == "columns in any order":
        some = [*columns, "ExpiresAt", "Owner"] if has_terms else list(columns)
        columns = draw.sample(some, len(some))
    else:
        acls = [NewAcl(each.binding) for each in acls]
    if style in ("quoted", "kafbat UI's"):
        acls = _with_signs(acls, ",", draw)
    if style == "kafbat UI's" and draw.random() < 0.5:
        columns = draw.choice(_ORDERS)
    end, quote = draw.choice(("\n", "\r\n")), '"' if style == "quoted" else ""
    lines = [] if style == "no header" else [",".join(columns)]
    lines += [",".join(f"{quote}{_cell(each, name)}{quote}" for name in columns) for each in acls]
    return AclFile(
        "".join(f"{line}{end}" for line in lines),
        tuple(acls),
        style,
        has_bare_hosts=not quote,
        is_recognised=style != "no header",
    )


def _text_of(acl_format: AclFormat, acls: Sequence[NewAcl]) -> str:
    out = io.StringIO(newline="")
    acl_format.write(acls, out)
    return out.getvalue()


def _cell(acl: NewAcl, column: str) -> str:
    b = acl.binding
    return {
        "Principal": b.principal,
        "ResourceType": b.resource_type.name,
        "PatternType": b.pattern_type.name,
        "ResourceName": b.resource_name,
        "Operation": b.operation.name,
        "PermissionType": b.permission_type.name,
        "Host": b.host,
        "ExpiresAt": shown_end(acl.expires_at) if isinstance(acl.expires_at, datetime) else "",
        "Owner": acl.owner if isinstance(acl.owner, str) else "",
    }[column]


def _kafka_acls(acl_format: AclFormat, acls: Sequence[NewAcl], draw: random.Random) -> AclFile:
    style = draw.choice(("its writer's", "of 3.9", "of 2.1", "of 2.0", "of 1.0", "added"))
    if draw.random() < 0.3:
        acls = _with_signs(acls, ", ", draw)
    if style == "of 1.0":
        acls = [each._replace(binding=each.binding._replace(pattern_type=PatternType.LITERAL)) for each in acls]
    if style == "its writer's":
        return AclFile(_text_of(acl_format, acls), tuple(acls), style)
    blank = " " if style in ("of 3.9", "of 2.0", "of 1.0") else ""
    said = "Adding" if style in ("added", "of 2.1") else "Current"
    lines = []
    for each in acls:
        resource, entry = _kafka_acls_resource(each.binding, style), _kafka_acls_entry(each.binding, style)
        lines += [f"{said} ACLs for resource `{resource}`:{blank}", f"{blank}\t{entry}{blank}", ""]
    return AclFile("".join(f"{line}\n" for line in lines), tuple(acls), style)


def _kafka_acls_resource(b: AclBinding, style: str) -> str:
    if style in ("of 1.0", "of 2.0"):
        pattern = "" if style == "of 1.0" else f"{b.pattern_type.name}:"
        return f"{_capital(b.resource_type.name)}:{pattern}{b.resource_name}"
    name = f"name={b.resource_name}, patternType={b.pattern_type.name}"
    return f"ResourcePattern(resourceType={b.resource_type.name}, {name})"


def _kafka_acls_entry(b: AclBinding, style: str) -> str:
    if style in ("of 1.0", "of 2.0", "of 2.1"):
        permission, operation = _capital(b.permission_type.name), _capital(b.operation.name)
        return f"{b.principal} has {permission} permission for operations: {operation} from hosts: {b.host}"
    words = f"operation={b.operation.name}, permissionType={b.permission_type.name}"
    return f"(principal={b.principal}, host={b.host}, {words})"


def _capital(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


_DRAWN: Mapping[str, _Drawn] = {
    "klamm": _of_trees(wraps={"its writer's": _as_it_is, "array": _array, "whole body": _body}),
    "rpk": _of_trees(wraps={"its writer's": _as_it_is, "with filters": _rpk_list}),
    "confluent": _of_trees(wraps={"its writer's": _as_it_is, "array": _array, "KafkaAclList": _kafka_acl_list}),
    "csv": _csv,
    "kafka-acls": _kafka_acls,
    "jikkou": _of_trees(
        is_yaml=True,
        wraps={
            "its writer's": _as_it_is,
            "list": _resource_list("kafka.jikkou.io/v1beta2", "KafkaPrincipalAuthorizationList"),
            "beside a topic": _beside_a_topic("kafka.jikkou.io/v1beta2"),
            "of a provider": _of_a_cluster("annotations", "jikkou.io/provider"),
        },
    ),
    "strimzi": _of_trees(
        is_yaml=True,
        wraps={
            "its writer's": _as_it_is,
            "List": _resource_list("v1", "List"),
            "operation": _with_old_operation,
            "of a cluster": _of_a_cluster("labels", "strimzi.io/cluster"),
            "beside a topic": _beside_a_topic("kafka.strimzi.io/v1"),
        },
    ),
    "terraform": _of_trees(
        wraps={
            "its writer's": _as_it_is,
            "other blocks": _with_other_blocks,
            "of a provider": _of_a_provider,
            "state": _state,
        }
    ),
    "jsonl": _of_trees(is_lines=True, wraps={"its writer's": _as_it_is}),
}
