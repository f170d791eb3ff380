"""Why a command can't go on: a text for the operator that says the way out, and the exit code.

CommandError     something refused or failed: exit code 1
`- UsageError    the command line, a setting or a file is wrong: exit code 2
"""

from app.formats.arguments import one_line


class CommandError(Exception):
    """The text has one line; several only where the caller gives several. None of them moves a terminal's cursor."""

    exit_code = 1

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(one_line, lines)))


class UsageError(CommandError):
    """What the operator asked for, or configured, can't be done.

    `did_you_mean` is a flag that is spelt much the same. `hint` says the way out where the text is Kafka's own.
    """

    exit_code = 2

    def __init__(self, *lines: str, did_you_mean: str | None = None, hint: str | None = None) -> None:
        super().__init__(*lines)
        self.did_you_mean = did_you_mean
        self.hint = hint
