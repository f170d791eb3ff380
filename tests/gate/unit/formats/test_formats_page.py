"""What docs/formats.md shows is what the readers read and the writers write, and it names every format and limit."""

import io
import re
from pathlib import Path

import pytest

from app.core.kafka.bindings import NewAcl
from app.formats.registry import FORMATS
from tests.acl_sets import bindings_of, recognised

PAGE = (Path(__file__).parents[4] / "docs" / "formats.md").read_text(encoding="utf-8")


def examples() -> list[str]:
    """The files that stand in the page: indented blocks that are no commands."""
    blocks = re.findall(r"(?:^    \S.*\n(?:^    .*\n)*)", PAGE, re.MULTILINE)
    texts = ["".join(line[4:] for line in block.splitlines(keepends=True)) for block in blocks]
    return [
        each
        for each in texts
        if not each.startswith(("klamm ", "kafka-acls ", "kubectl ", "confluent ", "rpk ", "jikkou "))
    ]


def test_each_example_is_recognised_read_and_written_so(subtests: pytest.Subtests) -> None:
    for text in examples():
        with subtests.test(text=text):
            found = recognised(text.encode())
            assert found is not None
            (acl,) = bindings_of(text.encode())
            if found.name != "klamm":
                out = io.StringIO()
                found.write([NewAcl(acl)], out)
                assert re.sub(r"\s", "", out.getvalue()) == re.sub(r"\s", "", text)


def test_every_format_has_an_example_and_a_line() -> None:
    shown = [found.name for text in examples() if (found := recognised(text.encode())) is not None]
    assert sorted(shown) == sorted(each.name for each in FORMATS)
    assert re.findall(r"^\| `([a-z][a-z-]*)` \|", PAGE, re.MULTILINE) == [
        "jsonl", "klamm", "csv", "kafka-acls", "rpk", "confluent", "jikkou", "strimzi", "terraform",
        "feed",
    ]  # fmt: skip
