"""The options of kafka-acls: their names, what --help says of them, and how words are read.

They are read by JOptSimple's rules, without abbreviations.
"""

import textwrap
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.client.http import access
from app.core.kafka.codes import AclOperation
from app.core.spelling import nearest
from app.formats.command_errors import UsageError

_DESCRIPTION = (
    "Lists, adds and removes ACLs with the options, rules, output and exit codes of Kafka's kafka-acls; --klamm "
    "names the service in place of --bootstrap-server."
)
_WIDTH = 79
_INDENT = 32
_OPERATIONS = ", ".join(each.camel_case for each in AclOperation if each.name not in ("UNKNOWN", "ANY"))

# An argument in brackets may be left out.
_GROUPS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Exactly one of",
        (
            ("list", "", "list the ACLs on the resources; without any resource, all ACLs"),
            ("add", "", "add ACLs"),
            ("remove", "", "remove ACLs; without a principal, every ACL on the resources, regardless of other options"),
        ),
    ),
    (
        "Resources, may be repeated; the name '*' stands for all of that type",
        (
            ("topic", "NAME", "a topic"),
            ("group", "NAME", "a consumer group"),
            ("cluster", "", "the cluster"),
            ("transactional-id", "NAME", "a transactional id"),
            ("delegation-token", "ID", "a delegation token"),
            ("user-principal", "PRINCIPAL", "a user as a resource, for CreateTokens and DescribeTokens"),
            (
                "resource-pattern-type",
                "TYPE",
                (
                    "LITERAL, or PREFIXED for all names with this prefix; with --list and --remove also ANY, for "
                    "patterns of both types with this name, and MATCH, for all patterns that match this name "
                    "(LITERAL)"
                ),
            ),
        ),
    ),
    (
        "Entries, may be repeated",
        (
            ("operation", "OPERATION", f"operation to allow or deny (All); one of {_OPERATIONS}"),
            ("allow-principal", "PRINCIPAL", "principal to allow, such as User:alice; 'User:*' is everybody"),
            ("deny-principal", "PRINCIPAL", "principal to deny; DENY takes precedence over ALLOW"),
            ("allow-host", "HOST", "address or CIDR range to allow from ('*')"),
            ("deny-host", "HOST", "address or CIDR range to deny from ('*')"),
        ),
    ),
    (
        "Shortcuts for common cases",
        (
            ("producer", "", "Write, Describe and Create on the topics, Write and Describe on the transactional ids"),
            ("idempotent", "", "with --producer: IdempotentWrite on the cluster"),
            ("consumer", "", "Read and Describe on the topics, Read on the groups"),
        ),
    ),
    (
        "Options of the actions",
        (
            ("principal", "[PRINCIPAL]", "with --list: only ACLs of this principal; may be repeated"),
            ("at", "TIME", "with --list: the ACLs at this time: 2026-11-30T18:00:00Z, a token, or 8h or 7d ago"),
            ("force", "", "with --remove: do not ask"),
            (
                "comment",
                "TEXT",
                "with --add and --remove: the reason, such as a ticket, kept in the records of the change",
            ),
            (
                "expires",
                "TIME",
                (
                    "with --add: when the ACLs end, also those that exist already: 8h or 7d from now by this "
                    "machine's clock, 2026-12-01T18:00:00Z, or never"
                ),
            ),
            (
                "owner",
                "TEXT",
                "with --add: owner of the ACLs, also of those that exist already; '' for nobody",
            ),
            (
                "output",
                "FORM",
                "json, yaml or csv: the ACLs listed, added or removed, for programs; text: with --list, for files",
            ),
        ),
    ),
    (
        "Service",
        tuple(
            (option, f"[{argument}]" if option == "command-config" else argument, text)
            for _, option, argument, text in access.OPTIONS
        ),
    ),
    ("Other", (("help", "", "show this help"), ("version", "", "show the version"))),
)

OPTIONS = {
    "bootstrap-server": "SERVER",
    "bootstrap-controller": "CONTROLLER",
    **{name: argument for _, options in _GROUPS for name, argument, _ in options},
}
"""What follows each option: nothing, an argument, or, in brackets, an argument that may be left out."""

_EXAMPLES = """\
Examples:
  klamm acls --as User:admin --list --topic orders
  klamm acls --as User:admin --add --allow-principal User:alice \\
      --producer --topic orders
  klamm acls --as User:admin --remove --allow-principal User:alice \\
      --operation Read --topic orders

Exit codes: 0 done, or the answer was no; 1 refused or failed; 130 Ctrl-C;
141 the reader closed the pipe.
"""


class ExecutionError(Exception):
    """The command was understood but can't be carried out. The text is Kafka's; `hint` adds what it leaves out."""

    def __init__(self, text: str, *, hint: str | None = None) -> None:
        super().__init__(text)
        self.hint = hint


@dataclass(slots=True)
class Given:
    _arguments: dict[str, list[str]] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    """The words that belong to no option."""

    def note(self, name: str, argument: str | None) -> None:
        arguments = self._arguments.setdefault(name, [])
        if argument is not None:
            arguments.append(argument)

    def has(self, name: str) -> bool:
        return name in self._arguments

    def values(self, name: str) -> list[str]:
        return self._arguments.get(name, [])

    def value(self, name: str) -> str | None:
        """Its only argument. Raises ExecutionError if there are several."""
        values = self.values(name)
        if len(values) > 1:
            raise ExecutionError(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0] if values else None


def parse_options(words: Sequence[str]) -> Given:
    """Raises UsageError with kafka-acls' own text."""
    given = Given()
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if word == "--":
            given.strays += rest
            rest.clear()
        elif _looks_like_an_option(word):
            _read_option(word, rest, given)
        else:
            given.strays.append(word)
    return given


def _looks_like_an_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def _read_option(word: str, rest: deque[str], given: Given) -> None:
    double = word.startswith("--")
    name, equals, argument = word[2 if double else 1 :].partition("=")
    if name not in OPTIONS:
        # After one dash JOptSimple looks for options of a single letter, and there are none.
        meant = nearest(f"--{name}", [f"--{each}" for each in OPTIONS]) if double else None
        raise UsageError(f"{name if double else word[1]} is not a recognized option", did_you_mean=meant)
    takes = OPTIONS[name]
    if not takes:
        given.note(name, None)
    elif equals:
        given.note(name, argument)
    elif not takes.startswith("["):
        # Whatever follows, even if it begins with a dash, as in JOptSimple.
        if not rest:
            raise UsageError(f"Option {name} requires an argument")
        given.note(name, rest.popleft())
    else:
        given.note(name, rest.popleft() if rest and not _looks_like_an_option(rest[0]) else None)


def help_text() -> str:
    """The width is constant, so that the text can be compared and searched."""
    parts = ["usage: klamm acls (--list | --add | --remove) [OPTIONS]\n", textwrap.fill(_DESCRIPTION, _WIDTH) + "\n"]
    for title, options in _GROUPS:
        parts.append("\n".join([f"{title}:", *(_option_help(*each) for each in options)]) + "\n")
    return "\n".join([*parts, _EXAMPLES])


def _option_help(name: str, argument: str, meaning: str) -> str:
    left = f"  --{name} {argument}".rstrip()
    lines = textwrap.wrap(meaning, _WIDTH - _INDENT)
    begin = f"{left:<{_INDENT}}{lines[0]}" if len(left) < _INDENT - 1 else f"{left}\n{' ' * _INDENT}{lines[0]}"
    return "\n".join([begin, *(f"{' ' * _INDENT}{line}" for line in lines[1:])])
