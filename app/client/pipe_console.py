"""Output with colours whose reader may go."""

from rich.console import Console


class PipeConsole(Console):
    """A rich console that leaves a broken pipe to whoever runs the command, as plain output does."""

    def on_broken_pipe(self) -> None:
        """Raises BrokenPipeError; rich would end the process with 1, which means something else here."""
        raise BrokenPipeError
