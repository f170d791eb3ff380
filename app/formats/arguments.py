"""Command lines: one parser for all commands, whose refusals are one line and whose help fits the terminal."""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from app.core.spelling import did_you_mean, nearest, printable

USAGE_STATUS = 2
HELP_COLUMNS = 78
"""The widest that help gets, so that a terminal of 80 columns shows it whole."""

MAX_LINE = 4_000
"""The longest line an operator gets, in characters; a service may quote what it was sent."""

_MARGIN = 2
_MAX_DIGITS = 19


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser without abbreviations. It refuses with exit code 2 and one line that leads to --help.

    For a flag or word that is almost one of its own, the line asks whether that was meant.
    """

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - what argparse takes
        super().__init__(**{"allow_abbrev": False, "formatter_class": _HelpFormatter, **kwargs})
        self._words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - as argparse has it
        """Refuses unknown words itself: argparse would leave those of a subcommand to the command above it."""
        self._words = sys.argv[1:] if args is None else list(args)
        parsed, unknown = super().parse_known_args(self._words, namespace)
        if unknown:
            flags = [f"`{each}`" for each in unknown if each.startswith("-")]
            self.error(f"there is no {', '.join(flags)}" if flags else f"unexpected argument `{unknown[0]}`")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        text = message.removeprefix("argument ")
        text += self._question(text)
        text += f"{'' if text.endswith('?') else ';'} see {self.prog} --help"
        self.exit(USAGE_STATUS, f"{self.prog}: {one_line(text)}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - as argparse has it
        if action.choices is not None and value not in action.choices:
            known = [str(each) for each in action.choices]
            text = f"`{value}` is not one of {', '.join(known)}{did_you_mean(str(value), known)}"
            raise argparse.ArgumentError(action, text)

    def _question(self, message: str) -> str:
        # Whatever the refusal is about, a misspelt flag may be its cause: a required one then seems to be missing.
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
    """Keeps paragraphs apart and indented lines as they are, and never breaks a line at a hyphen (kafka-acls)."""

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


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """A `type` for an argument: a whole number from `least` to `most`, both included."""

    def read(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else -1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least:,} to {most:,}, not `{text[:50]}`")
        return number

    return read


def one_line(text: str, most: int = MAX_LINE) -> str:
    return printable(text, most)
