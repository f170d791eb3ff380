"""The expected answers of Kafka 4.4.0's own classes, line by line.

The files are the project's shared vectors, byte for byte, compressed; their fields are told in tests/vectors/README.md.
"""

import json
import lzma
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

Line = dict[str, Any]
"""One line of a vector file: JSON as Kafka's harness wrote it, so its shape is the file's own."""

_FOLDER = Path(__file__).parent


def lines(name: str, every: int = 1) -> Iterator[Line]:
    """The lines of `<name>.jsonl`, or every n-th of them."""
    with lzma.open(_FOLDER / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        for line in islice(file, 0, None, every):
            yield json.loads(line)
