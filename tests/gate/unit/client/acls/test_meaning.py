"""What the options of kafka-acls mean, and which refusal comes first: held to the AclCommand of Kafka 4.3.1."""

import pytest

from app.client.acls.command import _work
from app.client.acls.meaning import Pattern, patterns_to_list
from app.client.acls.options import ExecutionError, parse_options
from app.client.acls.text import adding, on_one_line
from app.core.kafka.codes import PatternType, ResourceType
from app.formats.command_errors import UsageError
from tests.kafka_acls_tool import FAILED, Said, drawn, ordered, ordered_words

_OPERATION_REFUSED = "ResourceType "


def ours(said: Said) -> tuple[int, str, str]:
    """Exit code, standard output on an empty store, and refusal."""
    try:
        _, to_add = _work(parse_options(said.words))
    except UsageError as refusal:
        return 1, "", str(refusal)
    except ExecutionError as failure:
        return 1, f"{FAILED}{failure}\n", ""
    if to_add:
        return 0, "".join(adding(pattern, entries, on_one_line) for pattern, entries in to_add.items()), ""
    return 0, said.out, ""


def test_a_thousand_command_lines_mean_what_they_mean_to_kafka() -> None:
    added = 0
    for said in drawn():
        if "(y/n)" in said.out:
            continue  # it has no console, and so no answer
        code, out, refusal = ours(said)
        assert code == said.exit, said.words
        if refusal.startswith(_OPERATION_REFUSED) and said.refusal.startswith(_OPERATION_REFUSED):
            # Of several resources Kafka tells the one that its hash table comes to first.
            types = {refusal.split()[1], said.refusal.split()[1]}
            assert types <= _resource_types(said.words), said.words
            if len(types) > 1:
                continue
        assert ordered_words(refusal) == ordered_words(said.refusal), said.words
        assert ordered(out) == ordered(said.out), said.words
        added += out.count("\t")
    assert added > 1_000


@pytest.mark.parametrize("word", ["literal", "Literal", "LITERAL", "L\u0130TERAL", "l\u0131teral"])
def test_a_pattern_type_is_read_as_java_reads_it(word: str) -> None:
    given = parse_options(["--list", "--topic", "t", "--resource-pattern-type", word])
    assert patterns_to_list(given) == [Pattern(ResourceType.TOPIC, "t", PatternType.LITERAL)]


def _resource_types(words: list[str]) -> set[str]:
    flags = {word.removeprefix("--").partition("=")[0] for word in words if word.startswith("--")}
    types = {flag.replace("-", "_").upper() for flag in flags}
    return types | ({"USER"} if "user-principal" in flags else set())
