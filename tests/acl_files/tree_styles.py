"""The styles of formats in JSON and YAML, as tools and people write them."""

import random
from collections.abc import Callable, Mapping, Sequence

from app.core.kafka.bindings import NewAcl
from app.formats.registry import AclFormat
from tests.acl_files.file import AclFile, Drawn, text_of, word
from tests.acl_files.trees import (
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


def _trees(acl_format: AclFormat, acls: Sequence[NewAcl]) -> list[Tree]:
    """The documents that the format's writer makes of them."""
    text = text_of(acl_format, acls)
    if acl_format.name == "jsonl":
        return [json_tree(line) for line in text.splitlines()]
    return yaml_trees(text) if acl_format.name in ("strimzi", "jikkou") else [json_tree(text)]


_Wrap = Callable[[list[Tree], random.Random], list[Tree]]


def _of_trees(*, is_yaml: bool = False, is_lines: bool = False, wraps: Mapping[str, _Wrap]) -> Drawn:
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


def _rpk_in_yaml(trees: list[Tree], _: random.Random) -> list[Tree]:
    """With the names of its fields in YAML."""
    acls = [
        Map((name.replace("_", ""), value) for name, value in (each if isinstance(each, Map) else ()))
        for each in _inner(trees[0])
    ]
    return [Map([("filters", []), ("matches", list(acls))])]


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


IN_TREES: Mapping[str, Drawn] = {
    "klamm": _of_trees(wraps={"its writer's": _as_it_is, "array": _array, "whole body": _body}),
    "rpk": _of_trees(wraps={"its writer's": _as_it_is, "with filters": _rpk_list, "as in YAML": _rpk_in_yaml}),
    "confluent": _of_trees(wraps={"its writer's": _as_it_is, "array": _array, "KafkaAclList": _kafka_acl_list}),
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
