"""What Kafka 4.3.1's own AclCommand said to each command line (tests/vectors/kafka_acls.jsonl.xz), and how to compare.

Its order of resources and entries is that of hash tables, so both sides are put in order before they are compared.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.vectors.loader import lines

FAILED = "Error while executing ACL command: "
_SEVERAL = re.compile(r"\[([A-Z_, ]+)\]$", re.MULTILINE)
_INDENTED_FIRST = ("Adding ", "Are you sure you want to remove ")


@dataclass(frozen=True)
class Said:
    """A command line of the tool, and what came of it. `refusal` is the first line of its standard error."""

    words: list[str]
    exit: int
    out: str
    refusal: str


def refusals() -> Iterator[Said]:
    """Command lines each on its own."""
    return _of_kind("refusal")


def story() -> Iterator[Said]:
    """Command lines one after another, on a store that was empty before the first."""
    return _of_kind("story")


def drawn() -> Iterator[Said]:
    """Command lines drawn at random, each on an empty store."""
    return _of_kind("drawn")


def _of_kind(kind: str) -> Iterator[Said]:
    for line in lines("kafka_acls"):
        if line["kind"] == kind:
            yield Said(line["words"], line["exit"], line["out"], line["refusal"])


def ordered_words(text: str) -> str:
    """The text with the words in brackets in order."""
    return _SEVERAL.sub(lambda match: f"[{', '.join(sorted(match[1].split(', ')))}]", text)


def ordered(text: str) -> list[tuple[str, list[str]]]:
    """The text as blocks of a header and its entries, in order; each listing of a principal is kept together.

    Whether the blanks of an entry are those of Kafka is asserted here, for they depend on its place.
    """
    blocks: list[tuple[str, list[str]]] = []
    principal = ""
    for line in text.split("\n"):
        if line.startswith("ACLs for principal"):
            principal = line
        if line.lstrip(" ").startswith("\t"):
            header, entries = blocks[-1]
            first = not entries and header.partition("|")[2].startswith(_INDENTED_FIRST)
            assert line.startswith(" \t") == first, line
            entries.append(line.strip())
        else:
            blocks.append((f"{principal}|{line}", []))
    return sorted((header, sorted(entries)) for header, entries in blocks)
