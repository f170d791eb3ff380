"""`klamm plan`: what would make of a service's ACLs those of a file, and who would gain and lose access by it."""

import argparse
import sys
from typing import TextIO

from app.client.http.access import access_of, add_access_arguments
from app.client.http.service import Service
from app.client.plan.file import save_plan
from app.client.plan.options import FILES_HELP, add_plan_arguments, propose, prune_of
from app.client.plan.planning import Limits
from app.client.plan.sources import read_wanted
from app.client.warning_lines import warn_of

DESCRIPTION = (
    "Compares the ACLs of files, in any format that klamm import reads, with those of a running service. Shows which "
    "would be created and deleted, and exactly who would gain and who would lose access. Changes nothing."
)

_EPILOG = (
    "Example:\n  klamm plan acls.csv --prune --as User:admin\n\n"
    "Exit codes: 0 shown; 1 refused or failed; 2 asked for wrongly, or the file can't be read; 3 there is something to "
    "do (--detailed-exitcode only); 130 Ctrl-C; 141 the reader of a pipe has gone."
)

_CHANGES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.usage = "%(prog)s FILE... [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument("files", metavar="FILE", nargs="+", help=FILES_HELP)
    parser.add_argument("--save", metavar="PLAN", help="write the plan to this file, for apply --plan")
    parser.add_argument(
        "--detailed-exitcode", action="store_true", help=f"exit with {_CHANGES} if there is anything to do"
    )
    add_plan_arguments(parser, ("text", "json", "markdown"))
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Show the plan. 0, or 3 with --detailed-exitcode if there is anything to do."""
    prune, limits = prune_of(arguments), Limits(arguments.max_deletes, arguments.max_delete_percent)
    access = access_of(arguments)
    wanted = read_wanted(arguments.files, arguments.format)
    wanted.tell("klamm plan", sys.stderr)
    with Service(access) as service:
        proposal = propose(service, wanted, prune)
        if arguments.save is not None:
            save_plan(arguments.save, service.url, proposal.plan)
    warn_of(proposal.plan.create, "klamm plan", sys.stderr)
    proposal.show(out, arguments.output, limits.refusal(proposal.plan))
    return _CHANGES if arguments.detailed_exitcode and not proposal.plan.is_empty else 0
