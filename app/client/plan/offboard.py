"""`klamm offboard`: all ACLs that a principal has, as a plan that removes them."""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TextIO

from app.client.console import Page, write_json
from app.client.http.access import access_of, add_access_arguments
from app.client.http.service import Service
from app.client.plan.command import Proposal, StoreState, add_save_arguments, check_save, proposal_of, read_state
from app.client.plan.output import acl_line, print_way
from app.client.plan.planning import Prune, make_plan, save_plan
from app.client.words import principal_named
from app.core.groups import is_group
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding, AclTerms, NewAcl
from app.core.kafka.codes import WILDCARD_PRINCIPAL, ResourceType
from app.core.readable import readable
from app.core.spelling import did_you_mean
from app.formats.command_errors import UsageError

DESCRIPTION = (
    "Shows every ACL of a principal, including DENYs, as a plan that removes them all, and exactly who would lose "
    "and who would gain access. Also shows related ACLs that stay: those that it owns, and those of others on it. "
    "Changes nothing: review the plan that --save has written, then give it to klamm apply --plan."
)
_EPILOG = (
    "Example:\n  klamm offboard User:bob --save bob.json --as User:admin\n\n"
    "Exit codes: 0 shown; 1 refused or failed; 2 wrong usage; 130 Ctrl-C; 141 the reader closed the pipe."
)
_MOST_GUESSED = 20_000
"""The most principals that a misspelt one is compared with."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What concerns the principal and stays."""

    owned: list[AclBinding]
    """ACLs of others that name it as owner."""
    on_it: list[AclBinding]
    """ACLs of others on the principal itself, such as to make tokens for it."""
    is_super_user: bool | None
    """None if the caller may not know."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s PRINCIPAL [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument("principal", metavar="PRINCIPAL", help="principal that leaves, such as User:bob")
    add_save_arguments(parser)
    parser.add_argument(
        "--output", choices=("text", "json", "markdown"), default="text", help="how to print (%(default)s)"
    )
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    principal = principal_named(arguments.principal)
    if principal == WILDCARD_PRINCIPAL:
        raise UsageError(f"`{WILDCARD_PRINCIPAL}` stands for everybody and can't be offboarded; name one principal")
    check_save(arguments)
    with Service(access_of(arguments)) as service:
        state = read_state(service)
        proposal = _proposal(state, principal)
        if arguments.save is not None and not proposal.plan.is_empty:
            save_plan(arguments.save, service.url, proposal.plan, force=arguments.force)
    rest = _rest(state, principal)
    if arguments.output == "json":
        about = {"owned": rest.owned, "on_it": rest.on_it}
        bodies = {name: [acl_line(each) for each in acls] for name, acls in about.items()}
        write_json({**proposal.body(), "principal": principal, **bodies, "super_user": rest.is_super_user}, out)
        return 0
    if proposal.plan.is_empty:
        out.write(f"{readable(principal)} has no ACLs{_question(state.acls, principal)}.\n")
    else:
        proposal.show(out, arguments.output)
    _print_rest(principal, rest, Page(out))
    if proposal.plan.is_empty and arguments.save is not None:
        sys.stderr.write("klamm offboard: there is nothing to do, so no plan was saved\n")
    elif not proposal.plan.is_empty:
        print_way(arguments.save, proposal.plan, out)
    return 0


def _proposal(state: StoreState, principal: str) -> Proposal:
    kept = {acl: NewAcl(acl) for acl in state.acls if acl.principal != principal}
    plan = make_plan(kept, state.acls, state.token, Prune(wanted=True, principals=frozenset({principal})))
    return proposal_of(plan, state)


def _rest(state: StoreState, principal: str) -> Rest:
    of_others = [each for each in sorted(state.acls, key=sort_key) if each.principal != principal]
    names = {principal.lower(), principal.partition(":")[2].lower()}
    return Rest(
        owned=[each for each in of_others if (state.acls[each].owner or "").lower() in names],
        on_it=[
            each for each in of_others if each.resource_type is ResourceType.USER and each.resource_name == principal
        ],
        is_super_user=None if state.config is None else principal in state.config.super_users,
    )


def _question(acls: Mapping[AclBinding, AclTerms], principal: str) -> str:
    known = dict.fromkeys(each.principal for each in acls)
    return did_you_mean(principal[:200], islice(known, _MOST_GUESSED))


def _print_rest(principal: str, rest: Rest, page: Page) -> None:
    name = readable(principal)
    if rest.is_super_user is None:
        page.heading("Not shown")
        page.line(f"whether {name} is a super user: that needs DescribeConfigs on the cluster", indent=1)
    if rest.is_super_user:
        page.heading(f"{name} is a super user")
        who = "a principal of this name, not a member of the group," if is_group(principal) else "it"
        page.line(f"{who} may do everything, regardless of ACLs, until it is removed from super.users", indent=1)
    for title, acls in (
        (f"ACLs of others that name {name} as owner; they stay", rest.owned),
        (f"ACLs of others on {name} itself; they stay", rest.on_it),
    ):
        if acls:
            page.heading(f"{title} ({len(acls)})")
            page.first_lines([acl_line(each) for each in acls])
