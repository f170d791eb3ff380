"""What is wrong with the files of a command: lines for people, and objects for programs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TextIO

from app.client.console import write_json
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError

MAX_PROBLEMS = 20
"""The most that are told of all files of a command."""

_MAX_CHARACTERS = 400


class FileProblem(NamedTuple):
    """What is wrong with a file of a command."""

    file: str
    line: int
    field: str | None
    """The dotted place of the field; None if it is about none."""
    message: str
    is_of_whole: bool = False
    """Whether it is about the file as a whole; the message then follows its name."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"

    def body(self) -> dict[str, object]:
        return {"file": self.file, "line": self.line, "field": self.field, "message": self.message}


class FilesError(UsageError):
    """The files of a command can't be used: all that is wrong with them, up to a bound."""

    def __init__(
        self,
        problems: Sequence[FileProblem],
        stopped: str | None = None,
        title: str = "nothing was written; fix this first:",
    ) -> None:
        """`stopped` is the file in which the check stopped."""
        if len(problems) == 1 and problems[0].is_of_whole:
            lines = [f"`{problems[0].file}` {problems[0].message}"]
        else:
            more = [] if stopped is None else [f"{stopped}: the check stopped here; there may be more"]
            lines = [title, *map(str, problems), *more]
        super().__init__(*lines)
        self._problems = problems
        self._has_more = stopped is not None

    def body(self) -> dict[str, object]:
        return {"problems": [each.body() for each in self._problems], "more_problems": self._has_more}


class UnreadableError(FilesError):
    """A file can't be opened, read or unpacked."""

    def __init__(self, problem: FileProblem) -> None:
        super().__init__([problem])
        self.problem = problem


def unreadable(path: str, error: Exception) -> UnreadableError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else "it is damaged"
    return UnreadableError(FileProblem(path, 1, None, f"can't be read ({why})", is_of_whole=True))


def shown_problem(text: str) -> str:
    """On one line, harmless to a terminal."""
    return one_line(text, _MAX_CHARACTERS)


@contextmanager
def problems_in(output: str, out: TextIO) -> Iterator[None]:
    """With `json`, what is wrong with the files is written there, too, for programs such as CI."""
    try:
        yield
    except FilesError as error:
        if output == "json":
            write_json(error.body(), out)
        raise
