"""A command of `app.client`, run in this process with words as on the command line."""

import argparse
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Run:
    """How a command ended and what it printed."""

    code: int
    text: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self.text)


def run(command: ModuleType, words: Sequence[str], out: io.StringIO | None = None) -> Run:
    """Raises what the command raises."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    command.add_arguments(parser)
    printed = out or io.StringIO()
    code = command.run(parser.parse_args(words), printed)
    return Run(code, printed.getvalue())
