"""`klamm apply`: makes a service's ACLs those of files, or carries out a saved plan."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from app.client.acl_files import STANDARD_INPUT
from app.client.console import warn_of, write_json
from app.client.file_problems import problems_in
from app.client.http.access import access_of, add_access_arguments
from app.client.http.replies import ServiceError, strange_reply
from app.client.http.service import Service, batches
from app.client.plan.command import FILES_HELP, Proposal, add_plan_arguments, proposal_of, propose, prune_of, read_state
from app.client.plan.planning import Limits, Plan, check_plan, load_plan
from app.client.plan.wanted import read_wanted
from app.client.words import add_comment_argument, counted
from app.core.kafka.bindings import NewAcl
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import MAX_RECORDS_PER_USER_OP
from app.core.token import Token
from app.formats.acl_entries import shown
from app.formats.command_errors import UsageError
from app.formats.file_flags import file_flags

DESCRIPTION = (
    "Creates the ACLs of files that a running service does not have; with --prune, deletes those that are not in the "
    "files. First shows what will be done and who gains and loses access, and asks. If anybody else changes ACLs in "
    "the meantime, it stops and says how far it got."
)
_EPILOG = (
    "Example:\n  klamm apply acls.csv --prune --as User:admin\n\n"
    "Exit codes: 0 done, or nothing to do; 1 refused, failed, or the answer was no; 2 wrong usage, or the file can't "
    "be read; 130 Ctrl-C; 141 the reader closed the pipe."
)

_CHANGED_SINCE = ("INVALID_UPDATE_VERSION", "TOKEN_EPOCH_MISMATCH")
_REFUSED_SHOWN = 5
BETWEEN = ".."
"""Stands between the tokens of a range of transactions, as `klamm undo` takes it."""


@dataclass(slots=True)
class Done:
    plan: Plan
    token: str
    """The token of the state after the last call: the guard of the next one."""
    created: int = 0
    changed: int = 0
    deleted: int = 0
    first: str | None = None
    """The token after the first call that wrote anything."""
    last: str | None = None
    """The same of the last such call."""

    @property
    def transactions(self) -> str | None:
        """FIRST..LAST, as `klamm undo` takes it: all transactions of these calls; None if nothing was written."""
        return None if self.first is None else f"{self.first}{BETWEEN}{self.last}"

    def advance_to(self, token: str) -> None:
        """`token` is that of the reply to a call that was guarded by the token before."""
        # INVARIANT: a call that wrote nothing replies with the state that it found, which somebody else may have made.
        if _offset(token) > _offset(self.token):
            self.first, self.last = self.first or token, token
        self.token = token

    def __str__(self) -> str:
        plan = self.plan
        changed = f", {self.changed} of {len(plan.change)} changed" if plan.change else ""
        created = f"{self.created} of {len(plan.create)} ACLs created"
        return f"{created}{changed} and {self.deleted} of {len(plan.delete)} deleted"

    def body(self) -> dict[str, object]:
        counts = {"created": self.created, "changed": self.changed, "deleted": self.deleted}
        return {**counts, "transactions": self.transactions}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s (FILE... | --plan PLAN) [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument("files", metavar="FILE", nargs="*", help=FILES_HELP)
    parser.add_argument("--plan", metavar="PLAN", help="apply this plan, saved by plan --save, instead of files")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_comment_argument(parser)
    add_plan_arguments(parser, ("text", "json"))
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Returns 0, also if there is nothing to do; 1 if the answer was no."""
    _check(arguments, out)
    prune, limits = prune_of(arguments), Limits(arguments.max_deletes, arguments.max_delete_percent)
    access = access_of(arguments)
    wanted = None
    if arguments.plan is None:
        with problems_in(arguments.output, out):
            wanted = read_wanted(arguments.files, file_flags(arguments))
        wanted.print_sources("klamm apply", sys.stderr, arguments.output)
    with Service(access) as service:
        proposal = _saved(arguments.plan, service) if wanted is None else propose(service, wanted, prune)
        plan = proposal.plan
        warn_of(plan.create, "klamm apply", sys.stderr)
        if arguments.output == "text":
            proposal.show(out, "text")
        refusal = limits.refusal(plan)
        if refusal is not None:
            raise ServiceError(refusal)
        if not (plan.is_empty or arguments.yes or confirmed(out)):
            return 1

        def show(done: Done) -> None:
            if arguments.output == "text":
                out.write(f"{done}\n")
                out.flush()

        done = carry_out(service, plan, show, arguments.comment)
    if arguments.output == "json":
        write_json(body_with(proposal.body(), done), out)
    elif not plan.is_empty:
        changed = f"{done.changed} changed, " if plan.change else ""
        out.write(f"Done: {done.created} created, {changed}{done.deleted} deleted.{undo_text(done)}\n")
    return 0


def _check(arguments: argparse.Namespace, out: TextIO) -> None:
    if bool(arguments.files) is (arguments.plan is not None):
        raise UsageError("give either FILE or --plan PLAN")
    about_files = (file_flags(arguments).flags, arguments.prune, arguments.prune_principal, arguments.prune_prefix)
    if arguments.plan is not None and any(about_files):
        raise UsageError(
            "--plan says itself what is created and deleted; leave out "
            f"{' and '.join([*file_flags(arguments).flags[:1], '--prune...'])}"
        )
    if not arguments.yes:
        check_can_ask(arguments.output, out, "use klamm plan", is_read=STANDARD_INPUT in arguments.files)


def check_can_ask(output: str, out: TextIO, look: str, *, is_read: bool = False) -> None:
    """Raises UsageError unless somebody can confirm. `look`: how to see the plan only; `is_read`: stdin is read."""
    if output == "json":
        raise UsageError("--output json can't ask for confirmation; add --yes")
    if is_read or not (sys.stdin.isatty() and out.isatty()):
        raise UsageError(
            f"there is no terminal to ask for confirmation; add --yes to do it anyway, or {look} to only see the plan"
        )


def _saved(path: str, service: Service) -> Proposal:
    url, plan = load_plan(path)
    state = read_state(service)
    if state.token != plan.token:
        raise ServiceError(
            f"the ACLs or the configuration have changed since the plan was made at `{url}`: the plan is of "
            f"`{plan.token}`, and `{service.url}` is at `{state.token}`; nothing was done, plan again"
        )
    check_plan(path, plan, state.acls)
    return proposal_of(plan, state)


def confirmed(out: TextIO) -> bool:
    out.write("\nDo this? [y/N] ")
    out.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    out.write("Nothing was changed.\n")
    return False


def body_with(proposal: Mapping[str, object], done: Done) -> dict[str, object]:
    """The plan and what was done, without the token of the state before: it names a transaction of somebody else."""
    return {name: value for name, value in proposal.items() if name != "token"} | done.body()


def undo_text(done: Done) -> str:
    return "" if done.transactions is None else f" To undo this: klamm undo {done.transactions}"


def carry_out(
    service: Service,
    plan: Plan,
    report: Callable[[Done], None],
    comment: str | None = None,
    way_out: str = "plan again to see what is left",
) -> Done:
    """Creates, then changes, then deletes. `report` is called after each call, if there are many.

    Each call is guarded by the token that the one before returned. As soon as anything is refused, or somebody else has
    changed anything, it stops with a ServiceError that says how far it got, and `way_out`.
    """
    done = Done(plan, plan.token)
    parts = (
        (_create, "create", plan.creates_in_order),
        (_change, "change", plan.changes_in_order),
        (_delete, "delete", plan.deletes_in_order),
    )
    most = MAX_RECORDS_PER_USER_OP
    calls = [(call, what, some) for call, what, acls in parts for some in batches(acls, most, comment)]
    under_way = "nothing"
    try:
        for call, what, some in calls:
            under_way = f"{counted(len(some))} to {what}"
            call(service, some, done, comment)
            if len(calls) > sum(bool(acls) for *_, acls in parts):
                report(done)
    except ServiceError as error:
        raise stopped(error, under_way, done, f"{done}; {way_out}") from None
    except KeyboardInterrupt:
        sys.stderr.write(
            f"interrupted with {under_way} under way; {done} for certain; plan again to see what is left"
            f"{_or_undo(done)}\n"
        )
        raise
    return done


def _create(service: Service, some: Sequence[NewAcl], done: Done, comment: str | None) -> None:
    results, token = service.create_acls(some, if_unchanged_since=done.token, comment=comment)
    done.advance_to(token)
    done.created += sum(each.created for each in results)
    _raise_refused("create", some, [each.refusal for each in results])


def _change(service: Service, some: Sequence[NewAcl], done: Done, comment: str | None) -> None:
    results, token = service.create_acls(some, if_unchanged_since=done.token, comment=comment)
    done.advance_to(token)
    done.changed += sum(each.refusal is None for each in results)
    _raise_refused("change", some, [each.refusal for each in results])


def _delete(service: Service, some: Sequence[NewAcl], done: Done, comment: str | None) -> None:
    filters = [AclBindingFilter(*each.binding) for each in some]
    results, token = service.delete_acls(filters, if_unchanged_since=done.token, comment=comment)
    done.advance_to(token)
    done.deleted += sum(len(each.matches) for each in results)
    # The guard ensures that the ACLs are those that the plan has seen, but a saved plan may have been edited.
    whys = [each.refusal or (None if each.matches else "there is no such ACL") for each in results]
    _raise_refused("delete", some, whys)


def _raise_refused(what: str, acls: Sequence[NewAcl], whys: Sequence[object]) -> None:
    """`whys` has None for each ACL that was not refused."""
    refused = [f"{shown(acl.binding)} ({why})" for acl, why in zip(acls, whys, strict=True) if why is not None]
    if refused:
        named = "; ".join(refused[:_REFUSED_SHOWN])
        more = f"; and {len(refused) - _REFUSED_SHOWN} more" if len(refused) > _REFUSED_SHOWN else ""
        raise ServiceError(f"the service refused to {what} {counted(len(refused))}: {named}{more}")


def stopped(error: ServiceError, under_way: str, done: Done, rest: str) -> ServiceError:
    """The error with what an operator needs: `rest` says how far the work got, and what to do now."""
    why = str(error)
    if error.code in _CHANGED_SINCE:
        why = "somebody else has changed the ACLs or the configuration since the plan, so nothing more was done"
    elif error.outcome_unknown:
        why = f"{why} (under way: {under_way})"
    return ServiceError(
        f"{why}; {rest}{_or_undo(done)}",
        code=error.code,
        status=error.status,
        outcome_unknown=error.outcome_unknown,
    )


def _or_undo(done: Done) -> str:
    return "" if done.transactions is None else f", or undo what was done: klamm undo {done.transactions}"


def _offset(token: str) -> int:
    """Raises ServiceError."""
    try:
        return Token.parse(token).offset
    except InvalidRequestException:
        raise strange_reply(f"`{token[:100]}` is not a token") from None
