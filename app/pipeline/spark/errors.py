"""Why a job can't go on, in words for the person who runs it."""

from app.formats.command_errors import UsageError


class PipelineError(UsageError):
    """Nothing that was written before is damaged. Exit code 1 is kept for what a job found, such as flips."""


class NotYetError(PipelineError):
    """What it reads was never made, which is normal on the first night."""


class NoDecisionsError(NotYetError):
    """No decision was ever ingested."""


class UnreachableError(PipelineError):
    """The request is fine, but the database doesn't answer."""

    exit_code = 3
