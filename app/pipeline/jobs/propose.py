"""`propose`: the fewest ACLs that allow what principals have used, and nothing that they were denied."""

import argparse
import io
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import WILDCARD_PRINCIPAL
from app.core.readable import readable
from app.formats.arguments import whole_number
from app.formats.quoting import shell_line
from app.pipeline.access.proposals import Evidence, Proposals, Whose, proposals_of, prove
from app.pipeline.access.resources import read_resources
from app.pipeline.access.use import Sides, asked_of, existing_names, sides_of
from app.pipeline.context import Job, JobContext
from app.pipeline.history.decision_log import read_decisions
from app.pipeline.history.schemas import BINDING_FIELDS
from app.pipeline.history.snapshot import Snapshot, load_snapshot
from app.pipeline.hygiene.evidence import coverage_of
from app.pipeline.jobs.inputs import (
    add_buckets,
    add_offset,
    add_period,
    add_resource_list,
    add_top,
    check_period,
    log_is_there,
)
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.row_output import write_whole

_MOST_HOSTS = 1_000
_EXAMPLES = 5
_HEADS = ("PRINCIPAL", "ACLS", "TODAY", "KEPT", "NEW", "DROPPED", "LEFT OUT")
_FORBIDDEN = "an existing DENY forbids it now"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--principal", metavar="PRINCIPAL", type=_principal, help="such as User:orders-api")
    whose.add_argument(
        "--team", metavar="PREFIX", type=_team, help="all principals with this prefix, such as User:orders-"
    )
    add_offset(parser)
    add_period(parser)
    add_resource_list(
        parser, "resources that exist besides those of the log and of literal ACLs; no proposed prefix covers them"
    )
    parser.add_argument(
        "--hosts",
        metavar="N",
        type=whole_number(1, _MOST_HOSTS),
        default=0,
        help="list the hosts of principals that use at most N, instead of *",
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="file for `klamm plan` to write (format klamm)")
    add_buckets(parser)
    add_top(parser, "rows")


def _principal(text: str) -> str:
    if text == WILDCARD_PRINCIPAL:
        raise PipelineError(f"`{text}` stands for every principal; name one principal, or a --team")
    if ":" not in text:
        raise PipelineError(f"`{text}` is not a principal; write it with its type, such as `User:{text or 'alice'}`")
    return text


def _team(text: str) -> str:
    if ":" not in text:
        raise PipelineError(
            f"`{text}` is not the beginning of a principal; write it with the type, such as `User:{text}`"
        )
    return text


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    whose = Whose(arguments.team or arguments.principal, is_team=arguments.team is not None)
    spark, home = context.spark, context.home
    snapshot = load_snapshot(spark, home, arguments.offset)
    decisions = read_decisions(spark, home, arguments.since, arguments.until)
    with context.console.step(f"gathering the requests of {whose}"):
        sides = sides_of(decisions.where(whose.of("principal")), snapshot.acls)
        asked = asked_of(sides.own).persist()
        covered = coverage_of(decisions)
        _say_of_groups(context, sides)
        _say_what_was_asked(context, asked, whose, f"{covered.window}, which cover {covered}")
    listed = None if arguments.resources is None else read_resources(spark, arguments.resources)
    # A resource exists whenever it was asked for.
    existing = existing_names(read_decisions(spark, home), snapshot.acls, listed)
    evidence = Evidence(whose, asked, snapshot.in_effect, existing, arguments.buckets)
    with context.console.step("looking for the fewest ACLs"):
        found = proposals_of(evidence, arguments.hosts)
    with context.console.step("checking the proposal against the log"):
        prove(evidence, found)
    if arguments.output is not None:
        with context.console.step(f"writing {arguments.output}"):
            _write(arguments.output, [*found.denies, *found.acls])
    _show(context, found, snapshot, arguments)
    asked.unpersist()
    return 1 if any(each.left_out for each in found.proposals.values()) or found.forbidden or sides.of_gone else 0


def _say_of_groups(context: JobContext, sides: Sides) -> None:
    say, named = context.console.say, sides.groups
    if named:
        more = f" and {len(named) - _EXAMPLES:,} more" if len(named) > _EXAMPLES else ""
        say(
            f"{sides.of_groups:,} used questions were allowed by ACLs of groups "
            f"({', '.join(map(readable, named[:_EXAMPLES]))}{more}): they stay with the groups, and are not proposed"
        )
    if sides.of_gone:
        say(
            f"{sides.of_gone:,} used questions are left out: an ACL that is gone allowed them, and the request named "
            "groups, so it may have been a group's"
        )


def _say_what_was_asked(context: JobContext, asked: DataFrame, whose: Whose, window: str) -> None:
    decisions, by_super_user, by_default = (sf.sum(each) for each in ("decisions", "by_super_user", "by_default"))
    row = asked.agg(
        sf.count(sf.lit(1)),
        sf.count_distinct("principal"),
        decisions,
        sf.sum("allowed"),
        by_super_user,
        by_default,
        sf.count_if("changed"),
    ).collect()[0]
    questions, principals, number, allowed, supers, defaults, changed = (each or 0 for each in row)
    if not allowed:
        raise PipelineError(
            f"{whose} has no allowed requests of its own in {window}, so there is nothing to propose; try another "
            "period (--since), or check the spelling of the name"
        )
    say = context.console.say
    for name, value in {"principals": principals, "decisions": number, "questions": questions}.items():
        context.metrics.count(name, value)
    who = f"{principals:,} principals {whose}" if whose.is_team else str(whose)
    say(f"{number:,} decisions of {who}, {questions:,} different questions, of {window}")
    if supers:
        say(f"{supers:,} of these decisions were allowed to a super user: the proposal allows them by ACLs")
    if defaults:
        say(
            f"{defaults:,} were allowed because no ACL was on the resource (DefaultAllow): the proposal has ACLs for it"
        )
    if changed:
        say(f"{changed:,} questions were answered both ways: the last answer counts")


def _write(path: Path, acls: Sequence[AclBinding]) -> None:
    try:
        from app.formats.acl_json import write_create_acls_body  # noqa: PLC0415 - its packages may be missing
    except ModuleNotFoundError as missing:
        raise PipelineError(f"writing files of ACLs needs the package {missing.name}; install it here") from None
    text = io.StringIO()
    write_create_acls_body(list(map(NewAcl, acls)), text)
    write_whole(path, text.getvalue())


def _show(context: JobContext, found: Proposals, snapshot: Snapshot, arguments: argparse.Namespace) -> None:
    say, dropped = context.console.say, found.dropped
    new = set(found.acls).difference(*found.today.values())
    for name, value in {"acls_proposed": len(found.acls), "acls_new": len(new), "acls_dropped": len(dropped)}.items():
        context.metrics.count(name, value)
    say(
        f"{len(found.acls):,} ACLs allow all that was used and nothing that was denied; a replay of the log confirms "
        f"it ({len(new):,} are new, {len(dropped):,} of today's {sum(map(len, found.today.values())):,} would go)"
    )
    rows = [
        _row(name, found) for name in sorted({*found.proposals, *found.today}, key=lambda each: -_weight(each, found))
    ]
    context.console.rows(_HEADS, rows[: arguments.top])
    if len(rows) > arguments.top:
        say(f"... and {len(rows) - arguments.top:,} more principals")
    _show_left_out(context, found)
    if dropped:
        say("of today's ACLs, these would be removed:")
        context.console.rows(
            [name.upper() for name in BINDING_FIELDS], [_words(acl) for acl in dropped[: arguments.top]]
        )
        if len(dropped) > arguments.top:
            say(f"... and {len(dropped) - arguments.top:,} more")
    if found.denies:
        say(f"{len(found.denies):,} DENY ACLs exist and stay; the file has them as well")
    supers = sorted(snapshot.config.super_users & found.proposals.keys())
    if supers:
        named = ", ".join(map(readable, supers[:_EXAMPLES]))
        context.console.note(f"{named}: these are super users, and need no ACLs as long as they are")
    _show_next(context, found, arguments.output)


def _words(acl: AclBinding) -> list[str]:
    names = (acl.resource_name, acl.principal, acl.host)
    return [readable(word) if word in names else word for word in acl.words]


def _weight(principal: str, found: Proposals) -> int:
    return len(found.today.get(principal, ()))


def _row(principal: str, found: Proposals) -> tuple[str, ...]:
    today = found.today.get(principal, set())
    proposal = found.proposals.get(principal)
    acls = set() if proposal is None else set(proposal.acls)
    left_out = found.forbidden[principal] + (0 if proposal is None else len(proposal.left_out))
    numbers = (len(acls), len(today), len(acls & today), len(acls - today), len(today - acls), left_out)
    return (readable(principal), *(f"{each:,}" for each in numbers))


def _show_left_out(context: JobContext, found: Proposals) -> None:
    say = context.console.say
    if found.forbidden:
        say(f"{found.forbidden.total():,} used questions are left out: {_FORBIDDEN}")
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for principal, proposal in found.proposals.items():
        for (kind, name, operation, host), reason in proposal.left_out.items():
            question = (
                f"{operation.name} on {kind.name} {readable(name)} for {readable(principal)} from {readable(host)}"
            )
            by_reason[reason.value].append(question)
    for why, questions in sorted(by_reason.items()):
        say(f"{len(questions):,} used questions are left out: {why}")
        for each in questions[:_EXAMPLES]:
            say(f"  {each}")


def _show_next(context: JobContext, found: Proposals, output: Path | None) -> None:
    if output is None:
        context.console.note("--output FILE writes the proposal for `klamm plan`")
        return
    names = sorted({*found.proposals, *found.today})
    flags = [word for name in names for word in ("--prune-principal", name)]
    line = shell_line(["klamm", "plan", str(output), "--prune", *flags])
    if line is None or len(names) > _EXAMPLES:
        line = "klamm plan, with this file, --prune and a --prune-principal for each principal"
    context.console.say(f"see what it would change: {line}")


JOB = Job(
    "propose",
    "propose the fewest ACLs that allow what principals have used, and nothing that they were denied",
    add_arguments,
    run,
    check=check_period,
    check_home=log_is_there,
    writes_home=False,
)
