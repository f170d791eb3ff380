"""What commands have alike at a terminal: refusals of one line, and help that fits."""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from app.client.faults import one_line
from app.core.spelling import did_you_mean, nearest

ASKED_WRONGLY = 2
HELP_COLUMNS = 78
"""What help takes at most, so that a terminal of 80 columns shows it whole."""

_MARGIN = 2


class OneLineParser(argparse.ArgumentParser):
    """An ArgumentParser that takes no abbreviations, and whose refusals are one line that leads to --help.

    What is spelt almost like a flag or a word that there is gets a question whether that was meant.
    """

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - what argparse takes
        super().__init__(**{"allow_abbrev": False, "formatter_class": _HelpFormatter, **kwargs})
        self._words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - as argparse has it
        """As argparse has it, but of a subcommand's words none is left over for the command above it to refuse."""
        self._words = sys.argv[1:] if args is None else list(args)
        parsed, strays = super().parse_known_args(self._words, namespace)
        if strays:
            flags = [f"`{each}`" for each in strays if each.startswith("-")]
            self.error(f"there is no {', '.join(flags)}" if flags else f"`{strays[0]}` is a word too many")
        return parsed, strays

    def error(self, message: str) -> NoReturn:
        """Ends the process with 2."""
        text = message + self._question(message)
        text += f"{'' if text.endswith('?') else ';'} see {self.prog} --help"
        self.exit(ASKED_WRONGLY, f"{self.prog}: {one_line(text)}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - as argparse has it
        if action.choices is None or value in action.choices:
            return
        known = [str(each) for each in action.choices]
        raise argparse.ArgumentError(
            action, f"`{value}` is none of {', '.join(known)}{did_you_mean(str(value), known)}"
        )

    def _question(self, message: str) -> str:
        """Whatever is wrong, a flag that is misspelt may be the reason: then it is as if it were not there."""
        flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        for word in self._words:
            flag = word.partition("=")[0]
            if flag.startswith("--") and flag not in (*flags, "--"):
                meant = nearest(flag, flags)
                if meant is not None:
                    about = "" if f"`{word}`" in message else f" `{flag}`:"
                    return f";{about} did you mean {meant}?"
        return ""


class _HelpFormatter(argparse.HelpFormatter):
    """Help of 80 columns at most. kafka-acls stays whole, paragraphs stay apart, indented lines as they are."""

    def __init__(self, prog: str, **kwargs: Any) -> None:  # noqa: ANN401 - what argparse gives
        width = min(shutil.get_terminal_size().columns - _MARGIN, HELP_COLUMNS)
        super().__init__(prog, **{"width": width, **kwargs})

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            line
            if line.startswith(" ")
            else textwrap.fill(line, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
            for line in text.split("\n")
        )
