"""How commands print: coloured lines, JSON, and warnings of ACLs that are probably mistakes."""

import json
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TextIO

from app.client.words import counted, harmless
from app.core.doubts import doubts_of_acl
from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.readable import readable_acl
from app.formats.arguments import one_line

if TYPE_CHECKING:
    from rich.console import Console

MAX_LINES = 100
"""How many lines of each kind of a plan are printed; JSON shows all."""

MAX_WARNINGS = 10
_COLUMNS = 80
_LEAST_COLUMNS = 40
_MAX_KEPT = 1_000


def coloured(out: TextIO) -> "Console":
    """A console that prints texts as they are, wraps none, and raises BrokenPipeError where rich would exit with 1."""
    from rich.console import Console  # noqa: PLC0415 - slow to load; help needs none of it

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return PipeConsole(file=out, highlight=False, markup=False, emoji=False, soft_wrap=True)


def write_json(body: Mapping[str, object], out: TextIO) -> None:
    """In ASCII, so that no name in it moves a terminal's cursor."""
    json.dump(body, out, indent=2)
    out.write("\n")


class Page:
    """No name in its lines reaches the terminal as a control sequence.

    With `wrapped`, lines break at the terminal's width, or else at 80 columns, and go on further indented; text to be
    copied must not be wrapped. Names break only at their blanks.
    """

    def __init__(self, out: TextIO, *, wrapped: bool = False) -> None:
        self._console = coloured(out)
        self._columns = None
        if wrapped:
            self._columns = shutil.get_terminal_size().columns if out.isatty() else _COLUMNS

    def line(self, text: str, *, indent: int = 0, before: str = "", style: str = "") -> None:
        """`style` is that of `before`, or else of the line."""
        lines = [harmless(text)]
        if self._columns is not None:
            around = len("  " * indent) + len(before) + bool(before)
            lines = _wrapped(lines[0], self._columns, around, "  " * (indent + 2))
        if before:
            self._console.print(before, style=style, end=" ")
        self._console.print("  " * indent + "\n".join(lines), style="" if before else style)

    def lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text, indent=1)

    def first_lines(self, texts: Sequence[str], style: str = "") -> None:
        """The first MAX_LINES, and how many more there are."""
        for text in texts[:MAX_LINES]:
            self.line(text, indent=1, style=style)
        if len(texts) > MAX_LINES:
            self.line(f"... and {len(texts) - MAX_LINES} more; --output json shows all", indent=1)

    def heading(self, text: str) -> None:
        self._console.print()
        self._console.print(harmless(text), style="bold")


def _wrapped(text: str, columns: int, before: int, indent: str) -> list[str]:
    """The first line follows `before` characters, the others have the indent."""
    lines = textwrap.wrap(
        text,
        max(columns, _LEAST_COLUMNS),
        initial_indent=" " * before,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return [lines[0][before:], *lines[1:]] if lines else [text]


class Warnings:
    """Keeps each doubt once, with the first ACL that it is about."""

    def __init__(self) -> None:
        self._first: dict[str, AclBinding] = {}
        self._counts: Counter[str] = Counter()
        self._more = 0

    def watch(self, acls: Iterable[NewAcl]) -> Iterator[NewAcl]:
        for acl in acls:
            for doubt in doubts_of_acl(acl.binding):
                if doubt in self._first or len(self._first) < _MAX_KEPT:
                    self._first.setdefault(doubt, acl.binding)
                    self._counts[doubt] += 1
                else:
                    self._more += 1
            yield acl

    def print(self, command: str, err: TextIO, *, with_acl: bool = True) -> None:
        for doubt, acl in islice(self._first.items(), MAX_WARNINGS):
            others = self._counts[doubt] - 1
            more = f" and {counted(others)} more" if others else ""
            about = f" ({readable_acl(acl)}{more})" if with_acl else ""
            err.write(f"{command}: warning: {one_line(doubt)}{about}\n")
        left = len(self._first) - MAX_WARNINGS + self._more
        if left > 0:
            err.write(f"{command}: warning: and {left} more of this kind\n")


def warn_of(acls: Iterable[NewAcl], command: str, err: TextIO, *, with_acl: bool = True) -> None:
    warnings = Warnings()
    for _ in warnings.watch(acls):
        pass
    warnings.print(command, err, with_acl=with_acl)
