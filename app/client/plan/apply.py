"""`klamm apply`: makes of a service's ACLs those of a file, or what a saved plan says."""

import argparse
import sys
from typing import TextIO

from app.client.http.access import access_of, add_access_arguments
from app.client.http.replies import ServiceError
from app.client.http.service import Service
from app.client.plan.applying import Done, carry_out
from app.client.plan.desired import read_state
from app.client.plan.file import check_plan, load_plan
from app.client.plan.options import FILES_HELP, Proposal, add_plan_arguments, proposal_of, propose, prune_of
from app.client.plan.output import write_json
from app.client.plan.planning import Limits
from app.client.plan.sources import STANDARD_INPUT, read_wanted
from app.client.warning_lines import warn_of
from app.formats.command_errors import UsageError

DESCRIPTION = (
    "Creates the ACLs that files have and a running service lacks; with --prune deletes those that the files do not "
    "have. Shows first what is done and who gains and loses access, and asks. If anybody else changes ACLs meanwhile, "
    "it stops and says how far it came."
)
_EPILOG = (
    "Example:\n  klamm apply acls.csv --prune --as User:admin\n\n"
    "Exit codes: 0 done, or nothing to do; 1 refused, failed, or the answer was no; 2 asked for wrongly, or the file "
    "can't be read; 130 Ctrl-C; 141 the reader of a pipe has gone."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.usage = "%(prog)s (FILE... | --plan PLAN) [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument("files", metavar="FILE", nargs="*", help=FILES_HELP)
    parser.add_argument("--plan", metavar="PLAN", help="do what this plan says, saved by plan --save, instead of files")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_plan_arguments(parser, ("text", "json"))
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Do it: 0, also if there was nothing to do; 1 if the answer was no."""
    _check(arguments, out)
    prune, limits = prune_of(arguments), Limits(arguments.max_deletes, arguments.max_delete_percent)
    access = access_of(arguments)
    wanted = None if arguments.plan is not None else read_wanted(arguments.files, arguments.format)
    if wanted is not None:
        wanted.tell("klamm apply", sys.stderr)
    with Service(access) as service:
        proposal = _saved(arguments.plan, service) if wanted is None else propose(service, wanted, prune)
        plan = proposal.plan
        warn_of(plan.create, "klamm apply", sys.stderr)
        if arguments.output == "text":
            proposal.show(out, "text")
        refusal = limits.refusal(plan)
        if refusal is not None:
            raise ServiceError(refusal)
        if not (plan.is_empty or arguments.yes or _confirmed(out)):
            out.write("Nothing was changed.\n")
            return 1
        done = carry_out(service, plan, lambda done: _tell(done, arguments, out))
    if arguments.output == "json":
        write_json({**proposal.body(), "created": done.created, "deleted": done.deleted, "token": done.token}, out)
    elif not plan.is_empty:
        out.write(f"Done: {done.created} created, {done.deleted} deleted. Token: {done.token}\n")
    return 0


def _check(arguments: argparse.Namespace, out: TextIO) -> None:
    """What can be refused before the service is asked. Raises UsageError."""
    if bool(arguments.files) is (arguments.plan is not None):
        raise UsageError("give either FILE or --plan PLAN")
    told = (arguments.format, arguments.prune, arguments.prune_principal, arguments.prune_prefix)
    if arguments.plan is not None and any(told):
        raise UsageError("--plan says itself what is created and deleted; leave --format and --prune... out")
    if arguments.yes:
        return
    if arguments.output == "json":
        raise UsageError("--output json asks nobody; say --yes if it shall be done")
    if STANDARD_INPUT in arguments.files or not (sys.stdin.isatty() and out.isatty()):
        raise UsageError("there is no terminal to ask on; say --yes if it shall be done, or look at it with klamm plan")


def _saved(path: str, service: Service) -> Proposal:
    url, plan = load_plan(path)
    state = read_state(service)
    if state.token != plan.token:
        raise ServiceError(
            f"the ACLs or the configuration have changed since the plan was made at `{url}`: it is of `{plan.token}`, "
            f"and `{service.url}` stands at `{state.token}`; nothing was done, plan again"
        )
    check_plan(path, plan, state.acls)
    return proposal_of(plan, state)


def _confirmed(out: TextIO) -> bool:
    out.write("\nDo this? [y/N] ")
    out.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tell(done: Done, arguments: argparse.Namespace, out: TextIO) -> None:
    if arguments.output == "text":
        out.write(f"{done}\n")
        out.flush()
