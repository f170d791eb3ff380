"""What `klamm plan` and `klamm apply` take alike, and the plan that comes of it."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from app.client.http.service import Service
from app.client.plan.desired import StoreState, read_state
from app.client.plan.output import plan_body, write_json
from app.client.plan.planning import DEFAULT_MAX_DELETE_PERCENT, DEFAULT_MAX_DELETES, Plan, Prune, make_plan
from app.client.plan.sources import Wanted
from app.client.words import principal_named
from app.core.access.diff import AccessDiff, access_diff
from app.core.kafka.configs import AuthorizerConfig
from app.formats.arguments import whole_number
from app.formats.command_errors import UsageError
from app.formats.registry import FORMAT_NAMES

_MOST_DELETES = 999_999_999
FILES_HELP = "the ACLs that are wanted: files, a folder for all files in it; - for standard input"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan, what it means for access, and whether the configuration that this depends on is known."""

    plan: Plan
    access: AccessDiff
    config_known: bool
    files: int = 1
    """How many files the wanted ACLs come from."""

    def show(self, out: TextIO, form: str, refusal: str | None = None) -> None:
        """To people or programs (`--output`); `refusal` is why it won't be applied."""
        if form == "json":
            write_json(self.body(), out)
        elif form == "markdown":
            from app.client.plan.markdown import plan_page  # noqa: PLC0415 - as below

            out.write(plan_page(self.plan, self.access, refusal, config_known=self.config_known, files=self.files))
        else:
            from app.client.plan.console import print_plan  # noqa: PLC0415 - rich is slow to load; help needs none of it

            print_plan(self.plan, self.access, out, config_known=self.config_known, files=self.files)
            if refusal is not None:
                out.write(f"\napply will refuse this: {refusal}\n")

    def body(self) -> dict[str, object]:
        """As JSON has it."""
        return plan_body(self.plan, self.access, config_known=self.config_known)


def add_plan_arguments(parser: argparse.ArgumentParser, outputs: Sequence[str]) -> None:
    """Declare what both commands take."""
    parser.add_argument(
        "--format", metavar="NAME", help=f"the files' format, if it is not recognised: {', '.join(FORMAT_NAMES)}"
    )
    parser.add_argument("--output", choices=outputs, default="text", help="how to print (%(default)s)")
    group = parser.add_argument_group("deleting")
    group.add_argument(
        "--prune", action="store_true", help="delete ACLs that the files do not have (they stay otherwise)"
    )
    group.add_argument(
        "--prune-principal",
        metavar="PRINCIPAL",
        action="append",
        default=[],
        help="prune only ACLs of this principal; may be repeated",
    )
    group.add_argument(
        "--prune-prefix",
        metavar="TEXT",
        action="append",
        default=[],
        help="prune only ACLs on resource names and prefixes that begin so; may be repeated",
    )
    group.add_argument(
        "--max-deletes",
        metavar="N",
        type=whole_number(0, _MOST_DELETES),
        default=DEFAULT_MAX_DELETES,
        help="refuse to delete more ACLs than this (%(default)s)",
    )
    group.add_argument(
        "--max-delete-percent",
        metavar="N",
        type=whole_number(0, 100),
        default=DEFAULT_MAX_DELETE_PERCENT,
        help="refuse to delete more than this part of the ACLs that pruning looks at, in percent (%(default)s)",
    )


def prune_of(arguments: argparse.Namespace) -> Prune:
    """Which ACLs may go. Raises UsageError."""
    if not arguments.prune:
        for flag, given in (
            ("--prune-principal", arguments.prune_principal),
            ("--prune-prefix", arguments.prune_prefix),
        ):
            if given:
                raise UsageError(f"{flag} narrows --prune down, which is not there; add --prune")
    if "" in arguments.prune_prefix:
        raise UsageError("--prune-prefix: every name begins with an empty text; leave it out to prune all")
    principals = frozenset(principal_named(each) for each in arguments.prune_principal)
    return Prune(arguments.prune, principals, tuple(arguments.prune_prefix))


def propose(service: Service, wanted: Wanted, prune: Prune) -> Proposal:
    """The plan for what files want. Raises ServiceError."""
    state = read_state(service)
    plan = make_plan(wanted.acls, state.acls, state.token, prune)
    return proposal_of(plan, state, files=len(wanted.sources))


def proposal_of(plan: Plan, state: StoreState, *, files: int = 1) -> Proposal:
    """The plan with what it means for the store in this state."""
    access = access_diff(state.acls, plan.after(state.acls), state.config or AuthorizerConfig())
    return Proposal(plan, access, state.config is not None, files)
