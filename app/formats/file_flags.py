"""The flags of every command that reads files of ACLs: their format, what to pass over, and of which cluster."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from app.core.readable import backticked
from app.formats.reading import cluster_named

FORMAT = "--format"
_PASSES = "--pass-over"
_OF_CLUSTER = "--of-cluster"


class FileFlags(NamedTuple):
    format_name: str | None = None
    pass_over: frozenset[str] = frozenset()
    of_cluster: str | None = None

    @property
    def flags(self) -> Sequence[str]:
        """Which of the flags have a value."""
        flags = ((FORMAT, self.format_name), (_PASSES, self.pass_over), (_OF_CLUSTER, self.of_cluster))
        return [flag for flag, value in flags if value]


NO_FLAGS = FileFlags()


def add_file_flags(parser: argparse.ArgumentParser, files: str, formats: Sequence[str] = ()) -> None:
    """`files` is whose format it is, such as `the files'`; `formats` are named in the help."""
    known = f": {', '.join(formats)}" if formats else ""
    parser.add_argument(FORMAT, metavar="NAME", help=f"{files} format, if it is not recognised{known}")
    parser.add_argument(
        _PASSES,
        metavar="PLACE",
        action="append",
        default=[],
        type=_place,
        help="pass over this field, which Klamm does not know, such as spec.quotas.x; may be repeated",
    )
    parser.add_argument(
        _OF_CLUSTER,
        metavar="NAME",
        type=_cluster,
        help="read only what the files say is of this Kafka cluster (NAME, or NAMESPACE/NAME)",
    )


def file_flags(arguments: argparse.Namespace) -> FileFlags:
    return FileFlags(arguments.format, frozenset(arguments.pass_over), arguments.of_cluster)


def _place(text: str) -> str:
    if not text.isprintable() or not all(each.strip() for each in text.split(".")):
        raise argparse.ArgumentTypeError(
            f"{backticked(text)} is not the place of a field; write its names from the outermost on, with dots "
            "between them, such as spec.quotas.x"
        )
    return text


def _cluster(text: str) -> str:
    try:
        cluster_named(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{backticked(text)} is not a cluster; write its name, or NAMESPACE/NAME, as the files have it"
        ) from None
    return text
