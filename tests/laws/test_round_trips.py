"""What is written is read back, in every format, or the limit is named before anything is written."""

import csv
import io
import json
import random
import re
import unicodedata
from collections.abc import Callable
from functools import cache

import pytest
import yaml

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import FormatLimitError
from app.formats.csv_cells import is_formula, marked
from app.formats.registry import FORMATS, AclFormat, format_named
from tests.acl_sets import bindings_of, entries, plain_binding, random_binding, recognised, written
from tests.budgets import seeds

_LATE = (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS, AclOperation.TWO_PHASE_COMMIT)
_FEW_TYPES = (ResourceType.DELEGATION_TOKEN, ResourceType.USER)
_LABELS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")


def texts(binding: AclBinding) -> tuple[str, str, str]:
    return binding.resource_name, binding.principal, binding.host


def beyond_kafka_acls(binding: AclBinding) -> bool:
    words = ("(principal=", ", host=", ", operation=", "permissionType=")
    return (
        any(sign in each for each in texts(binding) for sign in ("\n", "\r", "\x1b", "\x9b", "ACLs for resource `"))
        or any(word in each for each in (binding.principal, binding.host) for word in words)
        or any(word in binding.resource_name for word in ("ResourcePattern(", ", name=", ", patternType="))
    )


def beyond_strimzi(binding: AclBinding) -> bool:
    is_odd_cluster = binding.resource_type is ResourceType.CLUSTER and binding.pattern_type is PatternType.PREFIXED
    is_late = binding.operation in _LATE or binding.resource_type in _FEW_TYPES
    kind, _, name = binding.principal.partition(":")
    bare = name.removeprefix("CN=")
    is_named = all(map(_LABELS.match, bare.split("."))) and len(bare) <= (253 if bare == name else 64)
    return is_late or is_odd_cluster or kind != "User" or not is_named or has_template(binding)


def has_template(binding: AclBinding) -> bool:
    return any(sign in each for each in texts(binding) for sign in ("{{", "{%", "{#"))


def beyond_terraform(binding: AclBinding) -> bool:
    is_late = binding.operation in _LATE or binding.resource_type is ResourceType.USER
    return is_late or any(unicodedata.normalize("NFC", each) != each for each in texts(binding))


def in_order(bindings: list[AclBinding]) -> list[AclBinding]:
    return sorted(bindings, key=repr)


def nothing(_: AclBinding) -> bool:
    return False


BEYOND: dict[str, Callable[[AclBinding], bool]] = {
    "klamm": nothing,
    "confluent": nothing,
    "csv": nothing,
    "kafka-acls": beyond_kafka_acls,
    "rpk": lambda binding: binding.principal.startswith("RedpandaRole:"),
    "jikkou": has_template,
    "strimzi": beyond_strimzi,
    "terraform": beyond_terraform,
    "jsonl": nothing,
}


@cache
def random_set(seed: int) -> list[AclBinding]:
    draw = random.Random(seed)
    some = [random_binding(draw) for _ in range(draw.randrange(12))]
    plain = [plain_binding(draw) for _ in range(draw.randrange(6))]
    found = list(dict.fromkeys(some + plain))
    draw.shuffle(found)
    return found


def what_can_be_said(acl_format: AclFormat, bindings: list[AclBinding]) -> tuple[bytes, list[AclBinding]]:
    """The file, and its ACLs: each that the format refuses is left out, and must be beyond its limit."""
    while True:
        out = io.StringIO(newline="")
        refused = refusal(acl_format, bindings, out)
        if refused is None:
            return out.getvalue().encode(), bindings
        assert out.getvalue() == ""
        assert refused in bindings
        twins = {refused.principal.replace("CN=", ""), refused.principal.replace(":", ":CN=")} - {refused.principal}
        is_second_of_two = acl_format.name == "strimzi" and any(each.principal in twins for each in bindings)
        assert BEYOND[acl_format.name](refused) or is_second_of_two, refused
        bindings = [each for each in bindings if each != refused]


def refusal(acl_format: AclFormat, bindings: list[AclBinding], out: io.StringIO) -> AclBinding | None:
    """The ACL that the format can't say, or None if it has said all."""
    try:
        acl_format.write(list(map(NewAcl, bindings)), out)
    except FormatLimitError as limit:
        return limit.binding
    return None


@pytest.mark.parametrize("acl_format", FORMATS, ids=lambda each: each.name)
def test_random_sets_survive_or_the_limit_is_named(acl_format: AclFormat) -> None:
    said = refused = 0
    drawn = seeds("round trips")
    for seed in drawn:
        bindings = random_set(seed)
        raw, sayable = what_can_be_said(acl_format, bindings)
        assert not any(BEYOND[acl_format.name](each) for each in sayable)
        found = bindings_of(raw, acl_format) if sayable else []
        assert in_order(found) == in_order(sayable), seed
        if found:
            assert recognised(raw[:65_536]) is acl_format, seed
        said += len(found)
        refused += len(bindings) - len(found)
    assert said > len(drawn)
    assert (refused > 0) is (BEYOND[acl_format.name] is not nothing)
    assert (acl_format.limits == "") is (BEYOND[acl_format.name] is nothing)


def test_the_order_stays(subtests: pytest.Subtests) -> None:
    for acl_format in [each for each in FORMATS if each.name not in ("strimzi", "jikkou")]:
        with subtests.test(acl_format=acl_format):
            raw, sayable = what_can_be_said(acl_format, random_set(7))
            assert bindings_of(raw) == sayable


def test_the_same_acls_make_the_same_file(subtests: pytest.Subtests) -> None:
    for acl_format in FORMATS:
        with subtests.test(acl_format=acl_format):
            draw = random.Random(5)
            bindings = list(dict.fromkeys(plain_binding(draw) for _ in range(40)))
            bindings = [each for each in bindings if each.principal != "User:CN=x.y-z"]
            assert written(acl_format, bindings) == written(acl_format, list(bindings))


def test_no_acls_make_a_file_without_acls(subtests: pytest.Subtests) -> None:
    for acl_format in FORMATS:
        with subtests.test(acl_format=acl_format):
            empty = written(acl_format, [])
            assert entries(empty, acl_format) == []


def test_words_that_this_version_does_not_know_are_never_written(subtests: pytest.Subtests) -> None:
    for acl_format in FORMATS:
        with subtests.test(acl_format=acl_format):
            known = plain_binding(random.Random(1))
            future = AclBinding(
                ResourceType.TOPIC, "a", PatternType.LITERAL, "User:a", "*", AclOperation.UNKNOWN, known.permission_type
            )
            out = io.StringIO()
            with pytest.raises(FormatLimitError, match=r"does not know: .* UNKNOWN on TOPIC LITERAL a"):
                acl_format.write([NewAcl(known), NewAcl(future)], out)
            assert out.getvalue() == ""


# what others make of it


def test_pythons_csv_reads_the_same() -> None:
    for seed in seeds("round trips"):
        bindings = random_set(seed)
        rows = list(csv.reader(io.StringIO(written(format_named("csv"), bindings).decode(), newline=""), strict=True))
        mark = "'" if any(is_formula(text) for each in bindings for text in texts(each)) else ""
        assert rows[0] == [
            f"{mark}Principal",
            "ResourceType",
            "PatternType",
            f"{mark}ResourceName",
            "Operation",
            "PermissionType",
            f"{mark}Host",
        ]
        assert rows[1:] == [
            [
                marked(each.principal), each.resource_type.name, each.pattern_type.name, marked(each.resource_name),
                each.operation.name, each.permission_type.name, marked(each.host),
            ]
            for each in bindings
        ]  # fmt: skip


def test_pythons_json_reads_the_same() -> None:
    for seed in seeds("round trips"):
        bindings = random_set(seed)
        batch = json.loads(written(format_named("confluent"), bindings))
        body = json.loads(written(format_named("klamm"), bindings))
        lines = written(format_named("jsonl"), bindings).decode().split("\n")[:-1]
        assert [json.loads(each) for each in lines] == body["bindings"]
        assert [{**each, "permission_type": each["permission"]} for each in batch["data"]] == [
            {**each, "permission": each["permission_type"]} for each in body["bindings"]
        ]
        assert [(each["resource_name"], each["principal"], each["host"]) for each in body["bindings"]] == [
            texts(each) for each in bindings
        ]


def test_safe_load_reads_the_same() -> None:
    """PyYAML's own constructor, which shares no code with the reader but the parser."""
    said, drawn = 0, seeds("round trips")
    for seed in drawn:
        raw, sayable = what_can_be_said(format_named("strimzi"), random_set(seed))
        found = []
        for user in yaml.safe_load_all(raw):
            if user is None:
                continue
            prefix = {"tls": "User:CN=", "scram-sha-512": "User:"}[user["spec"]["authentication"]["type"]]
            for rule in user["spec"]["authorization"]["acls"]:
                resource = rule["resource"]
                found += [
                    AclBinding(
                        ResourceType[re.sub("(?=[A-Z])", "_", resource["type"]).upper()],
                        resource.get("name", "kafka-cluster"),
                        {"literal": PatternType.LITERAL, "prefix": PatternType.PREFIXED}[
                            resource.get("patternType", "literal")
                        ],
                        prefix + user["metadata"]["name"],
                        rule["host"],
                        AclOperation[re.sub("(?<=[a-z])(?=[A-Z])", "_", operation).upper()],
                        AclPermissionType[rule["type"].upper()],
                    )
                    for operation in rule["operations"]
                ]
        assert in_order(found) == in_order(sayable), seed
        said += len(found)
    assert said > len(drawn)
