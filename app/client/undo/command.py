"""`klamm undo`: undoes what transactions have changed."""

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

from app.client.console import Page, warn_of, write_json
from app.client.history import NO_CONFIGS, sign_of, value_text, what_changed
from app.client.http.access import access_of, add_access_arguments
from app.client.http.replies import ServiceError, parse_text, text_or_none
from app.client.http.service import Service
from app.client.plan.apply import BETWEEN, Done, body_with, carry_out, check_can_ask, confirmed, stopped, undo_text
from app.client.plan.command import (
    Proposal,
    StoreState,
    add_save_arguments,
    check_save,
    check_words,
    proposal_of,
    read_state,
)
from app.client.plan.output import acl_line, print_way
from app.client.plan.planning import Prune, make_plan, save_plan
from app.client.undo.actors import changed_meanwhile, changes_by
from app.client.undo.inverse import Inverse, Json, inverse_of, subject_of
from app.client.undo.transactions import changed_since, changes_of
from app.client.words import add_comment_argument, counted, utf_8
from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.errors import InvalidRequestException
from app.core.readable import quoted_text, readable
from app.core.token import Token
from app.formats.command_errors import UsageError

DESCRIPTION = (
    "Undoes the changes of a transaction, or of a range of them: deletes the ACLs that it created, creates those "
    "that it deleted, and restores the former ends, owners and properties. First shows what will be done and who "
    "gains and loses access, and asks. What was changed again since then is shown and left as it is."
)
_EPILOG = (
    "Example:\n  klamm undo 0199f0c2-5d1e-7c3a-9a41-3f6f0b8a2c17:412 --as User:admin\n\n"
    "Exit codes: 0 done, saved, or nothing to do; 1 refused, failed, or the answer was no; 2 wrong usage; 130 "
    "Ctrl-C; 141 the reader closed the pipe."
)
_WAY_OUT = "run the same command again for the rest"


@dataclass(frozen=True, slots=True)
class Undo:
    changes: Sequence[Json]
    """What is undone, newest first."""
    by_others: Sequence[Json]
    """Changes of these transactions that are left as they are, because they are other actors', newest first."""
    inverse: Inverse
    proposal: Proposal
    properties: Mapping[str, str]
    """As they are stored now."""
    shows_configs: bool

    @property
    def is_empty(self) -> bool:
        return self.proposal.plan.is_empty and not self.inverse.properties

    def body(self) -> dict[str, object]:
        inverse = self.inverse
        return {
            "undone": self.changes,
            "by_others": self.by_others,
            **self.proposal.body(),
            "properties": [
                {"name": name, "value": value, "before": self.properties.get(name)}
                for name, value in inverse.properties.items()
            ],
            "changed_since": inverse.changed_since,
            "ended": [acl_line(each) for each in inverse.ended],
            "shows_configs": self.shows_configs,
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s TOKEN[..TOKEN] [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument(
        "tokens",
        metavar="TOKEN[..TOKEN]",
        help="any token of the transaction, as klamm log shows them; FIRST..LAST for all from one to another",
    )
    parser.add_argument(
        "--actor",
        metavar="PRINCIPAL",
        action="append",
        default=[],
        help="undo only changes by this principal; needed if there are changes by several; may be repeated",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_save_arguments(parser, "change nothing; ")
    add_comment_argument(parser)
    parser.add_argument("--output", choices=("text", "json"), default="text", help="how to print (%(default)s)")
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Returns 0, also if there is nothing to do; 1 if the answer was no."""
    first, last = _range(arguments.tokens)
    if arguments.save is None and not arguments.yes:
        check_can_ask(arguments.output, out, "--save")
    if arguments.save is not None and arguments.yes:
        raise UsageError("--save changes nothing and does not ask, so --yes has no effect; leave one of them out")
    check_save(arguments)
    with Service(access_of(arguments)) as service:
        undo = _undo(service, first, last, list(map(utf_8, arguments.actor)))
        plan = undo.proposal.plan
        if arguments.output == "text":
            _print(undo, out)
        if arguments.save is not None:
            return _save(undo, arguments, service.url, out)
        warn_of(plan.create, "klamm undo", sys.stderr)
        if not (undo.is_empty or arguments.yes or confirmed(out)):
            return 1
        done = _carry_out(service, undo, arguments.comment or f"undo of {arguments.tokens}")
    if arguments.output == "json":
        write_json(body_with(undo.body(), done), out)
    elif not undo.is_empty:
        out.write(f"Undone: {_text(done, undo.inverse.properties)}.{undo_text(done)}\n")
    return 0


def _range(text: str) -> tuple[Token, Token]:
    """Raises UsageError."""
    before, between, behind = text.partition(BETWEEN)
    try:
        first = Token.parse(before)
        last = Token.parse(behind) if between else first
    except InvalidRequestException:
        raise UsageError(
            f"`{text[:200]}` is neither TOKEN nor TOKEN..TOKEN; klamm log shows the tokens of changes"
        ) from None
    for each in (first, last):
        if each.offset == 0:
            raise UsageError(f"`{each}` is the empty store, before any change; give the token of a change")
    return first, last


def _undo(service: Service, first: Token, last: Token, actors: Sequence[str]) -> Undo:
    """Raises ServiceError."""
    state = read_state(service)
    now = Token.parse(state.token)
    if last.epoch == now.epoch and last.offset > now.offset:
        raise ServiceError(f"there is no change `{last}`: `{service.url}` is at `{now}`")
    every, upto, shows_configs = changes_of(service, first, last)
    changes, by_others = changes_by(actors, every)
    subjects = dict.fromkeys(map(subject_of, changes))
    check_words(each for each in subjects if isinstance(each, AclBinding))
    since = {**changed_meanwhile(every, by_others), **changed_since(service, subjects, upto, now)}
    inverse = inverse_of(changes, since, state.acls, state.properties, datetime.fromtimestamp(time.time(), UTC))
    return Undo(changes, by_others, inverse, _proposal(state, inverse), state.properties, shows_configs)


def _proposal(state: StoreState, inverse: Inverse) -> Proposal:
    desired = {acl: NewAcl(acl) for acl in state.acls if acl not in inverse.acls}
    desired |= {acl: NewAcl(acl, *terms) for acl, terms in inverse.acls.items() if terms is not None}
    principals = frozenset(acl.principal for acl, terms in inverse.acls.items() if terms is None)
    plan = make_plan(desired, state.acls, state.token, Prune(wanted=bool(principals), principals=principals))
    return proposal_of(plan, state)


def _print(undo: Undo, out: TextIO) -> None:
    page, inverse = Page(out), undo.inverse
    by = dict.fromkeys((parse_text(each, "recorded_at"), *_said(each)) for each in undo.changes)
    page.line(f"Undoes {counted(len(undo.changes), 'change')}:")
    page.first_lines([" ".join(each).strip() for each in by])
    if not undo.proposal.plan.is_empty:
        page.line("")
        undo.proposal.show(out, "text")
    elif undo.is_empty:
        page.line("Nothing to do.")
    if inverse.properties:
        page.heading("Properties to set; who gains and loses access is worked out with the current values")
        page.first_lines(
            [
                f"= {readable(name)}: {value_text(value)} instead of {value_text(undo.properties.get(name))}"
                for name, value in inverse.properties.items()
            ]
        )
    if undo.by_others:
        page.heading(f"Changes by others among them, and left as they are ({len(undo.by_others)})")
        page.first_lines([_later(each) for each in undo.by_others])
    if inverse.changed_since:
        page.heading(f"Changed again since then, and left as it is ({len(inverse.changed_since)})")
        page.first_lines([_later(each) for each in inverse.changed_since])
    if inverse.ended:
        page.heading(f"Would have ended by now, and is not created again ({len(inverse.ended)})")
        page.first_lines([acl_line(each) for each in inverse.ended])
    if not undo.shows_configs:
        page.heading("Note")
        page.line(NO_CONFIGS, indent=1)


def _later(change: Json) -> str:
    actor, comment = _said(change)
    when = f"{parse_text(change, 'recorded_at')} {actor} {comment}".strip()
    return f"{sign_of(change)} {what_changed(change)[0]} ({when})"


def _said(change: Json) -> tuple[str, str]:
    comment = text_or_none(change, "comment")
    return readable(parse_text(change, "actor")), "" if comment is None else quoted_text(comment)


def _save(undo: Undo, arguments: argparse.Namespace, url: str, out: TextIO) -> int:
    if undo.inverse.properties:
        raise UsageError("--save: a plan can hold ACLs but no properties; leave it out to undo both")
    if undo.is_empty:
        sys.stderr.write("klamm undo: there is nothing to do, so no plan was saved\n")
    else:
        save_plan(arguments.save, url, undo.proposal.plan, force=arguments.force)
    if arguments.output == "json":
        write_json(undo.body(), out)
    elif not undo.is_empty:
        print_way(arguments.save, undo.proposal.plan, out)
    return 0


def _carry_out(service: Service, undo: Undo, comment: str) -> Done:
    """ACLs first, then properties. Raises ServiceError, which says how far it got."""
    done = carry_out(service, undo.proposal.plan, lambda _: None, comment, _WAY_OUT)
    values = undo.inverse.properties
    if not values:
        return done
    try:
        done.advance_to(service.alter_configs(values, if_unchanged_since=done.token, comment=comment))
    except ServiceError as error:
        names = ", ".join(values)
        raise stopped(error, names, done, f"{_text(done)}; not restored: {names}; {_WAY_OUT}") from None
    return done


def _text(done: Done, properties: Iterable[str] = ()) -> str:
    set_back = f"{', '.join(properties)} set" if properties else ""
    return "; ".join(filter(None, ("" if done.plan.is_empty else str(done), set_back))) or "no ACL had to be changed"
