"""The same ACLs, written in another way: never refused, and never another meaning."""

import random
from collections import Counter

import pytest

from app.formats.registry import FORMATS, AclFormat, format_named
from tests.acl_files.drawn import drawn_file
from tests.acl_files.variants import lines_json, of_csv, of_kafka_acls, of_trees
from tests.acl_files.whole_files import WHOLE
from tests.acl_sets import acls_of, recognised

VARIANTS = 80
_YAML = ("jikkou", "strimzi", "klamm", "rpk", "confluent")
_NO_JSON: tuple[str, ...] = ()


def variant(acl_format: AclFormat, draw: random.Random) -> tuple[str, bytes, Counter[object]]:
    file = drawn_file(acl_format, draw)
    while acl_format.name == "csv" and file.style != "its writer's":
        file = drawn_file(acl_format, draw)
    if acl_format.name == "csv":
        how, raw = of_csv(file.text, draw)
    elif acl_format.name == "kafka-acls":
        how, raw = of_kafka_acls(file.text, draw)
    elif acl_format.name == "jsonl":
        how, raw = lines_json(file.trees, draw)
    else:
        how, raw = of_trees(file.trees, draw, is_yaml=acl_format.name in _YAML, is_json=True)
    return f"{file.style}: {how}", raw, Counter(file.acls)


@pytest.mark.parametrize("acl_format", FORMATS, ids=lambda each: each.name)
def test_a_variant_is_recognised_and_means_the_same(acl_format: AclFormat) -> None:
    for seed in range(VARIANTS):
        how, raw, meant = variant(acl_format, random.Random(seed))
        assert recognised(raw) is acl_format, (seed, how, raw.decode(errors="replace"))
        assert Counter(acls_of(raw)) == meant, (seed, how, raw.decode(errors="replace"))


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_with_all_blocks_may_be_written_in_any_way(name: str) -> None:
    whole = WHOLE[name]
    acl_format = format_named(whole.format_name)
    meant: Counter[object] | None = None
    for seed in range(VARIANTS // 4):
        draw = random.Random(seed)
        is_yaml = whole.format_name in _YAML
        how, raw = (
            lines_json([whole.tree], draw)
            if acl_format.name == "jsonl"
            else of_trees([whole.tree], draw, is_yaml=is_yaml, is_json=True)
        )
        found: Counter[object] = Counter(acls_of(raw))
        meant = meant or found
        assert recognised(raw) is acl_format, (seed, how, raw.decode(errors="replace"))
        assert found == meant, (seed, how, raw.decode(errors="replace"))
