"""What may go wrong in a command, each told in one line that says the way out.

UsageError                   asked for wrongly: exit code 2
ServiceError                 the service refused or failed: exit code 1
`- ServiceUnreachableError   no service answered, and nothing was sent
"""

from app.formats.arguments import one_line


class UsageError(Exception):
    """What was asked for can't be done; one line for the operator that says the way out.

    `did_you_mean`: a flag that is spelt much the same. `hint`: more on the way out, on a line of its own, where the
    text is Kafka's and has none.
    """

    def __init__(self, text: str, *, did_you_mean: str | None = None, hint: str | None = None) -> None:
        super().__init__(one_line(text))
        self.did_you_mean = did_you_mean
        self.hint = hint


class ServiceError(Exception):
    """A call came to nothing; one line for the operator that says the way out.

    `code` is Kafka's error name and `status` the HTTP status, as far as the service gave them.
    `outcome_unknown`: it was an update, and nobody knows whether it was made.
    """

    def __init__(
        self, text: str, *, code: str | None = None, status: int | None = None, outcome_unknown: bool = False
    ) -> None:
        super().__init__(one_line(text))
        self.code = code
        self.status = status
        self.outcome_unknown = outcome_unknown


class ServiceUnreachableError(ServiceError):
    """No service answers at this address; nothing was sent."""
