"""One mistake anywhere in a file is told once, with its line and its field. The mistakes are drawn from the shapes."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from app.formats import jikkou, strimzi
from app.formats.reading import FileSet
from app.formats.registry import format_named
from tests.acl_files.shapes import (
    EMITS,
    UNKNOWN,
    Mistake,
    levels_of,
    misspelt,
    mistakes,
    mistakes_of_words,
    passed_over,
    problems_in,
    shapes_in,
)
from tests.acl_files.whole_files import WHOLE, Whole
from tests.acl_sets import entries

LEAST_MISTAKES = 2_000
_WORDS = frozenset({
    "TOPIC", "LITERAL", "READ", "WRITE", "DENY", "KafkaAcl", "KafkaAclList", "topic", "literal", "deny", "Read",
    "Write", "simple", "scram-sha-512", "Topic", "Literal", "Deny", "KafkaUser", "List", "KafkaPrincipalAuthorization",
    "KafkaPrincipalAuthorizationList",
})  # fmt: skip


def told(whole: Whole, mistake: Mistake) -> str | None:
    """What is wrong with what is told of it; None if nothing is."""
    written = EMITS[whole.style](mistake.tree)
    problems = problems_in(format_named(whole.format_name), written.text)
    lines = mistake.lines(written)
    shown = f"{mistake.kind} `{mistake.says}` in line {lines}: {problems}\n{written.text}"
    if len(problems) != 1:
        return f"told {len(problems)} times: {shown}"
    ((line, problem),) = problems
    if line not in lines:
        return f"told of line {line}: {shown}"
    return None if f"`{mistake.says}`" in problem else f"the field is not named: {shown}"


@pytest.mark.parametrize("format_name", sorted({each.format_name for each in WHOLE.values()}))
def test_the_files_that_mistakes_are_made_in_are_right_and_have_all_blocks_of_the_shapes(format_name: str) -> None:
    acl_format = format_named(format_name)
    met: set[type] = set()
    for whole in (each for each in WHOLE.values() if each.format_name == format_name):
        assert problems_in(acl_format, EMITS[whole.style](whole.tree).text) == []
        met |= {each.shape for each in levels_of(acl_format, whole.tree, EMITS[whole.style])}
    assert met
    assert set().union(*map(shapes_in, met)) == met


@pytest.mark.parametrize("name", WHOLE)
def test_each_mistake_is_told_once_with_its_line_and_field(name: str) -> None:
    whole = WHOLE[name]
    levels = levels_of(format_named(whole.format_name), whole.tree, EMITS[whole.style])
    faults = [fault for each in mistakes(whole.tree, levels) if (fault := told(whole, each)) is not None]
    assert not faults, f"{len(faults)} faults, such as {faults[0]}"


def test_what_is_passed_over_unseen_is_no_field_of_an_acl() -> None:
    found: dict[str, set[str]] = {}
    for whole in WHOLE.values():
        for level in levels_of(format_named(whole.format_name), whole.tree, EMITS[whole.style]):
            found.setdefault(whole.format_name, set()).update(passed_over(level.shape))
    of_terraform = found.pop("terraform")
    assert len(of_terraform) > 50
    assert not any(name.startswith(("acl_", "resource_name", "resource_type", "resource_p")) for name in of_terraform)
    assert {name: each for name, each in found.items() if each} == {"strimzi": {"fieldsV1"}}


@pytest.mark.parametrize("name", WHOLE)
def test_a_misspelt_word_is_told_once_with_its_line(name: str) -> None:
    whole = WHOLE[name]
    tried, faults = 0, []
    for each in mistakes_of_words(whole.tree, _WORDS):
        # Jikkou takes Kafka's words in any case.
        if whole.format_name == "jikkou" and each.says.upper() in _WORDS:
            continue
        tried += 1
        faults += [fault] if (fault := told(whole, each)) is not None else []
    assert not faults, f"{len(faults)} faults, such as {faults[0]}"
    assert tried >= 20


def test_there_are_enough_mistakes() -> None:
    kinds: Counter[str] = Counter()
    for whole in WHOLE.values():
        levels = levels_of(format_named(whole.format_name), whole.tree, EMITS[whole.style])
        kinds.update(each.kind for each in mistakes(whole.tree, levels))
    assert kinds.total() > LEAST_MISTAKES
    assert min(kinds[each] for each in ("unknown", "misspelt", "misplaced", "doubled", "missing")) > 50


# kinds, types and blocks that are known by name


def _resource(version: str, kind: str) -> str:
    return f"apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: a\n"


@pytest.mark.parametrize("acl_format", ["strimzi", "jikkou"])
def test_a_kind_that_is_misspelt_is_refused_though_others_are_passed_over(acl_format: str) -> None:
    kinds = {"strimzi": strimzi._KINDS, "jikkou": jikkou._KINDS}[acl_format]
    tried = 0
    for some in (kinds.read, kinds.lists, kinds.passed_over):
        for version, names in some.items():
            right = version.replace("*", "v1")
            for name in names:
                for wrong in misspelt(name):
                    if any(kinds.has(each, right, wrong) for each in (kinds.read, kinds.lists, kinds.passed_over)):
                        continue
                    ((line, problem),) = problems_in(format_named(acl_format), _resource(right, wrong))
                    assert f"`{wrong}`" in problem, (wrong, problem)
                    assert line in (1, 2)
                    tried += 1
    assert tried > 80


@pytest.mark.parametrize("acl_format", ["strimzi", "jikkou"])
def test_a_kind_that_is_passed_over_is_counted_by_name(acl_format: str) -> None:
    kinds = {"strimzi": strimzi._KINDS, "jikkou": jikkou._KINDS}[acl_format]
    for version, names in kinds.passed_over.items():
        for name in names:
            files = FileSet()
            assert entries(_resource(version.replace("*", "v1"), name).encode(), format_named(acl_format), files) == []
            assert files.passed_over() == {name: 1}


def _terraform(kind: str) -> str:
    return f'{{"resource": {{"{kind}": {{"a": {{}}}}}}}}'


def _shown(kind: str) -> str:
    resource = f'{{"address": "{kind}.a", "mode": "managed", "type": "{kind}", "name": "a", "values": {{}}}}'
    return f'{{"format_version": "1.0", "values": {{"root_module": {{"resources": [{resource}]}}}}}}'


@pytest.mark.parametrize("text_of", [_terraform, _shown])
def test_a_type_that_is_almost_kafka_acl_is_refused_and_others_are_counted(text_of: Callable[[str], str]) -> None:
    terraform = format_named("terraform")
    for wrong in [*misspelt("kafka_acl"), "Kafka_Acl", "kafka_acls", "kafkaacl", "kafka-acl", "kakfa_acl"]:
        ((_, problem),) = problems_in(terraform, text_of(wrong))
        assert "kafka_acl" in problem, (wrong, problem)
    files = FileSet()
    assert entries(text_of("kafka_topic").encode(), terraform, files) == []
    assert files.passed_over() == {"kafka_topic": 1}


# text


_CSV = (
    "Principal",
    "ResourceType",
    "PatternType",
    "ResourceName",
    "Operation",
    "PermissionType",
    "Host",
    "ExpiresAt",
    "Owner",
)
_CELLS = ("User:a", "TOPIC", "LITERAL", "orders", "READ", "DENY", "*", "2090-01-01T00:00:00Z", "team a")


def _table(header: Sequence[str], *rows: Sequence[str]) -> str:
    return "".join(f"{','.join(each)}\r\n" for each in (header, *rows))


def test_a_column_with_a_mistake_is_told_once() -> None:
    acl_format = format_named("csv")
    assert problems_in(acl_format, _table(_CSV, _CELLS)) == []
    wrongs = [(at, wrong) for at, name in enumerate(_CSV) for wrong in misspelt(name) if wrong.lower() != name.lower()]
    for at, wrong in wrongs:
        told_of = problems_in(acl_format, _table([*_CSV[:at], wrong, *_CSV[at + 1 :]], _CELLS))
        assert [line for line, _ in told_of] == [1], (wrong, told_of)
        assert f"`{wrong}`" in told_of[0][1], (wrong, told_of)
    for at, name in enumerate((*_CSV, UNKNOWN)):
        more = (*_CELLS, "x")[at]
        ((line, problem),) = problems_in(acl_format, _table([*_CSV, name], [*_CELLS, more]))
        assert line == 1
        assert f"`{name}`" in problem, (name, problem)
    for name in ("Principal", "ResourceType", "ResourceName", "Operation", "PermissionType", "Host"):
        without = [(each, cell) for each, cell in zip(_CSV, _CELLS, strict=True) if each != name]
        ((line, problem),) = problems_in(acl_format, _table(*zip(*without, strict=True)))
        assert line == 1
        assert f"`{name}`" in problem, (name, problem)


def test_a_cell_with_a_mistake_is_told_once_with_its_line_and_column() -> None:
    acl_format = format_named("csv")
    for at, name in enumerate(_CSV):
        words = misspelt(_CELLS[at]) if name.endswith("Type") or name == "Operation" else []
        wrong_texts = {
            "Principal": ["", "a", " User:a", "User:a ", '"x"'],
            "ResourceName": ["", " orders"],
            "Host": [" *", "* "],
            "ExpiresAt": ["soon", "2090-01-01", "2090-13-01T00:00:00Z"],
            "Owner": [" team", "team "],
        }
        for wrong in [*(each for each in words if each.upper() != _CELLS[at]), *wrong_texts.get(name, [])]:
            for number in (2, 3):
                rows: list[Sequence[str]] = [_CELLS, _CELLS]
                rows[number - 2] = (*_CELLS[:at], wrong, *_CELLS[at + 1 :])
                told_of = problems_in(acl_format, _table(_CSV, *rows))
                assert [line for line, _ in told_of] == [number], (name, wrong, told_of)
                assert f"`{name}`" in told_of[0][1], (name, wrong, told_of)
    for row in (_CELLS[:-1], _CELLS[1:], (*_CELLS, "x", "y"), (*_CELLS, *_CELLS)):
        assert [line for line, _ in problems_in(acl_format, _table(_CSV, _CELLS, row, _CELLS))] == [3], row


_KAFKA_ACLS = (
    "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=ordersname, patternType=LITERAL)`:\n"
    "\t(principal=User:aprincipal, host=ahost, operation=READ, permissionType=DENY)\n"
    "\n"
)
_KAFKA_ACLS_2_0 = (
    "Current ACLs for resource `Topic:LITERAL:ordersname`: \n"
    " \tUser:aprincipal has Deny permission for operations: Read from hosts: ahost \n"
    "\n"
)
_NAMES_OF_THE_TEXT = ("ordersname", "User", "aprincipal", "ahost")


@pytest.mark.parametrize("text", [_KAFKA_ACLS, _KAFKA_ACLS_2_0], ids=["2.4", "2.0"])
def test_a_word_with_a_mistake_in_the_text_of_kafka_acls_is_told(text: str) -> None:
    acl_format = format_named("kafka-acls")
    assert problems_in(acl_format, text) == []
    tried = 0
    for found in re.finditer("[A-Za-z]+", text):
        for wrong in misspelt(found[0]) if found[0] not in _NAMES_OF_THE_TEXT else []:
            if text is _KAFKA_ACLS_2_0 and wrong.lower() == found[0].lower():
                continue
            changed = text[: found.start()] + wrong + text[found.end() :]
            told_of = problems_in(acl_format, changed)
            line = text.count("\n", 0, found.start()) + 1
            assert [each for each, _ in told_of] == [line], (wrong, told_of, changed)
            tried += 1
    assert tried > 50
