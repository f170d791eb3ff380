"""Why a job can't go on, in words for the person who runs it."""

from app.formats.command_errors import UsageError


class PipelineError(UsageError):
    """The text names what is wrong and the way out. Nothing that was written before is damaged.

    Exit code 1 is kept for what a job found (flips, a broken chain): the job itself went well.
    """


class NotYetError(PipelineError):
    """What it reads was never made, which is normal in a first night."""


class NoDecisionsError(NotYetError):
    """No decision was ever ingested."""
