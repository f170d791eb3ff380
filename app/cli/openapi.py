"""`klamm openapi`: writes the OpenAPI description of the REST API."""

import argparse
from pathlib import Path
from typing import TextIO

from app.cli.commands import Run
from app.formats.command_errors import UsageError

DESCRIPTION = "Writes the OpenAPI description of the REST API."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", metavar="FILE", type=Path, help="file to write (standard output)")


def load() -> Run:
    from app.rest.openapi import build_openapi  # noqa: PLC0415 - slow to load, as is the next
    from app.rest.pages.routes import document_text  # noqa: PLC0415 - as above

    def run(arguments: argparse.Namespace, out: TextIO) -> int:
        text = document_text(build_openapi())
        try:
            if arguments.output is not None:
                arguments.output.write_text(text, encoding="utf-8")
            else:
                out.write(text)
                out.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            if arguments.output is not None:
                raise UsageError(f"--output: can't write `{arguments.output}` ({error.strerror})") from None
            raise UsageError(
                f"standard output can't be written ({error.strerror}); name a file with --output"
            ) from None
        return 0

    return run
