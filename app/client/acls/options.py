"""The options of kafka-acls, read as kafka-acls reads them (JOptSimple's rules, without abbreviations)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from app.core.spelling import nearest
from app.formats.command_errors import UsageError


class Takes(Enum):
    """Whether an option has an argument."""

    NOTHING = 0
    ARGUMENT = 1
    MAYBE_ARGUMENT = 2


class ExecutionError(Exception):
    """The command was understood and can't be carried out; the text is for the operator, and so is a `hint`."""

    def __init__(self, text: str, *, hint: str | None = None) -> None:
        super().__init__(text)
        self.hint = hint


_WITHOUT = ("add", "remove", "list", "cluster", "producer", "consumer", "idempotent", "force", "help", "version")
_WITH = (
    "topic",
    "group",
    "transactional-id",
    "delegation-token",
    "user-principal",
    "resource-pattern-type",
    "operation",
    "allow-principal",
    "deny-principal",
    "allow-host",
    "deny-host",
    "bootstrap-server",
    "bootstrap-controller",
    # Klamm's own
    "klamm",
    "as",
    "token-file",
    "ca",
    "timeout",
    "output",
)
_MAYBE_WITH = ("principal", "command-config")

OPTIONS: dict[str, Takes] = {
    **dict.fromkeys(_WITHOUT, Takes.NOTHING),
    **dict.fromkeys(_WITH, Takes.ARGUMENT),
    **dict.fromkeys(_MAYBE_WITH, Takes.MAYBE_ARGUMENT),
}


@dataclass(slots=True)
class Given:
    """The options that were given, with their arguments in order, and the words that belong to none."""

    _arguments: dict[str, list[str]] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)

    def note(self, name: str, argument: str | None) -> None:
        """One more of this option."""
        arguments = self._arguments.setdefault(name, [])
        if argument is not None:
            arguments.append(argument)

    def has(self, name: str) -> bool:
        """Whether it was given at all."""
        return name in self._arguments

    def values(self, name: str) -> list[str]:
        """All its arguments."""
        return self._arguments.get(name, [])

    def value(self, name: str) -> str | None:
        """Its argument. Raises ExecutionError if there are several, which mean something for other options only."""
        values = self.values(name)
        if len(values) > 1:
            raise ExecutionError(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0] if values else None


def parse_options(words: Sequence[str]) -> Given:
    """What these words mean. Raises UsageError, with the text that kafka-acls has for it."""
    given = Given()
    rest = _Words(words)
    for word in rest:
        if word == "--":
            given.strays += rest
        elif _looks_like_an_option(word):
            _read_option(word, rest, given)
        else:
            given.strays.append(word)
    return given


class _Words(Iterator[str]):
    """The words, one after the other; the next one can be looked at without being taken."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._at = 0

    def __next__(self) -> str:
        if self._at == len(self._words):
            raise StopIteration
        self._at += 1
        return self._words[self._at - 1]

    def peek(self) -> str | None:
        return self._words[self._at] if self._at < len(self._words) else None


def _looks_like_an_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def _read_option(word: str, rest: _Words, given: Given) -> None:
    double = word.startswith("--")
    name, equals, argument = word[2 if double else 1 :].partition("=")
    takes = OPTIONS.get(name)
    if takes is None:
        # After one dash JOptSimple looks for options of a single letter, and there are none.
        meant = nearest(f"--{name}", [f"--{each}" for each in OPTIONS]) if double else None
        raise UsageError(f"{name if double else word[1]} is not a recognized option", did_you_mean=meant)
    if takes is Takes.NOTHING:
        given.note(name, None)
    elif equals:
        given.note(name, argument)
    elif takes is Takes.ARGUMENT:
        # Whatever follows, even if it begins with a dash; that is how JOptSimple has it.
        following = next(rest, None)
        if following is None:
            raise UsageError(f"Option {name} requires an argument")
        given.note(name, following)
    else:
        following = rest.peek()
        given.note(name, None if following is None or _looks_like_an_option(following) else next(rest))
