"""`klamm plan`, and what `klamm apply` shares with it: the service's state, the proposal and its flags."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from app.client.console import warn_of, write_json
from app.client.file_problems import problems_in
from app.client.http.access import access_of, add_access_arguments
from app.client.http.replies import ServiceError, parse_list, parse_object, parse_text
from app.client.http.service import Service, TooFastError, looks
from app.client.plan.output import plan_body, print_plan
from app.client.plan.planning import (
    DEFAULT_MAX_DELETE_PERCENT,
    DEFAULT_MAX_DELETES,
    SAVE,
    Limits,
    Plan,
    Prune,
    make_plan,
    save_plan,
)
from app.client.plan.wanted import Wanted, read_wanted
from app.client.whole_files import target_of
from app.client.words import principal_named
from app.core.access.diff import AccessDiff, access_diff
from app.core.kafka.bindings import AclBinding, AclTerms
from app.core.kafka.configs import CONFIG_NAMES, AuthorizerConfig, parse_configs
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.formats.arguments import whole_number
from app.formats.command_errors import UsageError
from app.formats.file_flags import add_file_flags, file_flags
from app.formats.registry import FORMAT_NAMES

DESCRIPTION = (
    "Compares the ACLs of files, in any format that klamm import reads, with those of a running service. Shows which "
    "would be created and deleted, and exactly who would gain and who would lose access. Changes nothing."
)

_EPILOG = (
    "Example:\n  klamm plan acls.csv --prune --as User:admin\n\n"
    "Exit codes: 0 shown; 1 refused or failed; 2 wrong usage, or the file can't be read; 3 there is something to do "
    "(--detailed-exitcode only); 130 Ctrl-C; 141 the reader closed the pipe."
)

FILES_HELP = "the wanted ACLs: files, folders (all files in them), or - for standard input"

_CHANGES = 3
_MOST_DELETES = 999_999_999
_FORBIDDEN = (401, 403)
_STORED = "STORE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE... [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument("files", metavar="FILE", nargs="+", help=FILES_HELP)
    add_save_arguments(parser)
    parser.add_argument(
        "--detailed-exitcode", action="store_true", help=f"exit with {_CHANGES} if there is anything to do"
    )
    add_plan_arguments(parser, ("text", "json", "markdown"))
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Returns 0, or 3 with --detailed-exitcode if there is anything to do."""
    prune, limits = prune_of(arguments), Limits(arguments.max_deletes, arguments.max_delete_percent)
    check_save(arguments)
    access = access_of(arguments)
    with problems_in(arguments.output, out):
        wanted = read_wanted(arguments.files, file_flags(arguments))
    wanted.print_sources("klamm plan", sys.stderr, arguments.output)
    with Service(access) as service:
        proposal = propose(service, wanted, prune)
        if arguments.save is not None:
            save_plan(arguments.save, service.url, proposal.plan, force=arguments.force)
    warn_of(proposal.plan.create, "klamm plan", sys.stderr)
    proposal.show(out, arguments.output, limits.refusal(proposal.plan))
    return _CHANGES if arguments.detailed_exitcode and not proposal.plan.is_empty else 0


@dataclass(frozen=True, slots=True)
class StoreState:
    acls: Mapping[AclBinding, AclTerms]
    token: str
    config: AuthorizerConfig | None
    """None if the caller may not read it."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties that are stored, and so override the start-up values."""


@dataclass(frozen=True, slots=True)
class Proposal:
    plan: Plan
    access: AccessDiff
    config_known: bool
    wanted: Wanted | None = None
    """The ACLs of files, if they are made of such."""

    @property
    def files(self) -> int:
        """How many files the wanted ACLs come from."""
        return 1 if self.wanted is None else len(self.wanted.sources)

    @property
    def notes(self) -> Sequence[str]:
        return () if self.wanted is None else self.wanted.file_set.notes()

    def show(self, out: TextIO, form: str, refusal: str | None = None) -> None:
        """`form` is that of --output; `refusal` is why apply would refuse it."""
        if form == "json":
            write_json(self.body(), out)
        elif form == "markdown":
            from app.client.plan.markdown import plan_page  # noqa: PLC0415 - only here

            page = plan_page(
                self.plan, self.access, refusal, self.notes, config_known=self.config_known, files=self.files
            )
            out.write(page)
        else:
            out.writelines(f"{each}\n" for each in self.notes)
            print_plan(self.plan, self.access, out, config_known=self.config_known, files=self.files)
            if refusal is not None:
                out.write(f"\napply will refuse this: {refusal}\n")

    def body(self) -> dict[str, object]:
        body = plan_body(self.plan, self.access, config_known=self.config_known)
        return body if self.wanted is None else {**body, **self.wanted.file_set.body()}


def add_save_arguments(parser: argparse.ArgumentParser, effect: str = "") -> None:
    """`effect` is what else --save does."""
    parser.add_argument(SAVE, metavar="PLAN", help=f"{effect}write the plan to this file, for apply --plan")
    parser.add_argument("--force", action="store_true", help=f"replace the file of {SAVE} if it exists")


def check_save(arguments: argparse.Namespace) -> None:
    """Raises UsageError if the plan can't be saved, before much is done for it."""
    if arguments.save is not None:
        target_of(SAVE, arguments.save, force=arguments.force)
    elif arguments.force:
        raise UsageError(f"--force replaces a file; name the file with {SAVE}")


def add_plan_arguments(parser: argparse.ArgumentParser, outputs: Sequence[str]) -> None:
    add_file_flags(parser, "the files'", FORMAT_NAMES)
    parser.add_argument("--output", choices=outputs, default="text", help="how to print (%(default)s)")
    group = parser.add_argument_group("deleting")
    group.add_argument(
        "--prune", action="store_true", help="delete ACLs that are not in the files (default: keep them)"
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
        help="prune only ACLs on resource names and prefixes that begin with this text; may be repeated",
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
        help="refuse to delete more than this percentage of the ACLs that may be pruned (%(default)s)",
    )


def prune_of(arguments: argparse.Namespace) -> Prune:
    if not arguments.prune and (arguments.prune_principal or arguments.prune_prefix):
        flag = "--prune-principal" if arguments.prune_principal else "--prune-prefix"
        raise UsageError(f"{flag} narrows --prune down; add --prune")
    if "" in arguments.prune_prefix:
        raise UsageError("--prune-prefix is empty, which every name begins with; leave it out to prune all")
    principals = frozenset(principal_named(each) for each in arguments.prune_principal)
    return Prune(arguments.prune, principals, tuple(arguments.prune_prefix))


def propose(service: Service, wanted: Wanted, prune: Prune) -> Proposal:
    state = read_state(service)
    plan = make_plan(wanted.acls, state.acls, state.token, prune)
    return proposal_of(plan, state, wanted)


def proposal_of(plan: Plan, state: StoreState, wanted: Wanted | None = None) -> Proposal:
    access = access_diff(state.acls, plan.after(state.acls), state.config or AuthorizerConfig())
    return Proposal(plan, access, state.config is not None, wanted)


def read_state(service: Service) -> StoreState:
    """All as of one token. Raises ServiceError, also if it changes too fast."""
    for _ in looks():
        config, properties, config_token = _read_config(service)
        try:
            listing = service.acls(AclBindingFilter(), token=config_token)
        except TooFastError as fault:
            too_fast = fault
            continue
        acls = {each.binding: each.terms for each in listing.acls}
        check_words(acls)
        return StoreState(acls, listing.token, config, properties)
    raise too_fast


def check_words(acls: Iterable[AclBinding]) -> None:
    """Raises ServiceError."""
    if any(0 in (each.resource_type, each.pattern_type, each.operation, each.permission_type) for each in acls):
        raise ServiceError(
            "the service has ACLs with values that this version of klamm does not know; use the service's own version"
        )


def _read_config(service: Service) -> tuple[AuthorizerConfig | None, Mapping[str, str], str | None]:
    """The configuration, its stored properties, and its token; none of them if the caller may not read them."""
    try:
        reply = service.get("/v1/configs")
    except ServiceError as error:
        if error.status in _FORBIDDEN:
            return None, {}, None
        raise
    entries = {parse_text(each, "name"): each for each in map(parse_object, parse_list(reply, "configs"))}
    values = {name: value for name, each in entries.items() if isinstance(value := each.get("value"), str)}
    stored = {name: value for name, value in values.items() if entries[name].get("source") == _STORED}
    try:
        config = parse_configs({name: value for name, value in values.items() if name in CONFIG_NAMES})
        return config, stored, parse_text(reply, "token")
    except InvalidRequestException as error:
        raise ServiceError(f"the configuration of `{service.url}` can't be understood ({error.message})") from None
