"""What may go wrong between a command and the service, told in one line that says the way out.

ServiceError                 the service refused or failed: exit code 1
`- ServiceUnreachableError   no service answered, and nothing was sent
"""

from app.formats.command_errors import CommandError


class ServiceError(CommandError):
    """A call came to nothing.

    `code` is Kafka's error name and `status` the HTTP status, as far as the service gave them.
    `outcome_unknown`: it was an update, and nobody knows whether it was made.
    """

    def __init__(
        self, text: str, *, code: str | None = None, status: int | None = None, outcome_unknown: bool = False
    ) -> None:
        super().__init__(text)
        self.code = code
        self.status = status
        self.outcome_unknown = outcome_unknown


class ServiceUnreachableError(ServiceError):
    """No service answers at this address; nothing was sent."""
