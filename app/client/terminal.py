"""What commands have alike at a terminal: refusals of one line, and output whose reader may go."""

import argparse
from typing import Any, NoReturn

from rich.console import Console

ASKED_WRONGLY = 2


class OneLineParser(argparse.ArgumentParser):
    """An ArgumentParser that takes no abbreviations, and whose refusals are one line that leads to --help."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - what argparse takes
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """Ends the process with 2."""
        self.exit(ASKED_WRONGLY, f"{self.prog}: {message}; see {self.prog} --help\n")


class PipeConsole(Console):
    """A rich console that leaves a broken pipe to whoever runs the command, as plain output does."""

    def on_broken_pipe(self) -> None:
        """Raises BrokenPipeError; rich would end the process with 1, which means something else here."""
        raise BrokenPipeError
