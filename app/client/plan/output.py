"""What a plan says: lines for people, and JSON for programs."""

from collections.abc import Iterable, Sequence
from typing import TextIO

from app.client.acl_texts import owner_text, terms_note, until_text
from app.client.console import Page
from app.client.plan.planning import Plan, Prune, TermsChange, changes_body
from app.client.words import counted
from app.core.access.diff import AccessChange, AccessDiff, Hosts, Names, Principals, Unresolved
from app.core.groups import is_group
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation, PatternType, ResourceType
from app.core.kafka.operations import supported_operations
from app.core.readable import readable
from app.formats.quoting import shell_line

_MAX_EXCEPTIONS = 8
CONFIG_UNKNOWN = (
    "The caller may not read the service's configuration: super users and allow.everyone.if.no.acl.found are not "
    "considered in what follows."
)
GROUPS_CHANGE = (
    "ACLs of groups change. Rows about `Group:NAME` are what the group has by itself: its members keep what other ACLs "
    "give them, and a DENY of a group takes from its members what their own ACLs give."
)
UNRESOLVED = "Too much to work out; access to this may be gained or lost as well"


def plan_body(plan: Plan, access: AccessDiff, *, config_known: bool) -> dict[str, object]:
    return {
        "token": plan.token,
        **changes_body(plan),
        "unchanged": plan.unchanged,
        "left_alone": plan.left_alone,
        "config_known": config_known,
        "access": [_change_body(each) for each in access.changes],
        "unresolved": [
            {
                "principal": each.principal,
                "resource_type": each.resource_type.name,
                "changed_acls": each.changed_acls,
            }
            for each in access.unresolved
        ],
    }


def print_plan(plan: Plan, access: AccessDiff, out: TextIO, *, config_known: bool, files: int = 1) -> None:
    page = Page(out)
    for sign, style, acls in (("+", "green", plan.create), ("-", "red", plan.delete)):
        page.first_lines([f"{sign} {acl_line(acl.binding)}{terms_note(acl)}" for acl in acls], style)
    page.first_lines([f"~ {acl_line(each.binding)}: {terms_changes(each)}" for each in plan.change], "yellow")
    page.line(summary_text(plan, files))
    if plan.is_empty:
        return
    if not config_known:
        page.line(CONFIG_UNKNOWN, style="yellow")
    if changes_groups(plan):
        page.line(GROUPS_CHANGE, style="yellow")
    lost, gained = ([each for each in access.changes if each.gained is gain] for gain in (False, True))
    for title, style, lines in (
        ("Access lost:", "red", [_sentence(": ", change_parts(each)) for each in lost]),
        ("Access gained:", "green", [_sentence(": ", change_parts(each)) for each in gained]),
        (f"{UNRESOLVED}:", "yellow", [": ".join(unresolved_parts(each)) for each in access.unresolved]),
    ):
        if lines:
            page.line("")
            page.line(title)
            page.first_lines(lines, style)
    if not access.changes and not access.unresolved:
        page.line("")
        page.line(nobody_text(plan))


def print_way(saved: str | None, plan: Plan, out: TextIO) -> None:
    """Prints how to carry out a plan that was only shown."""
    if saved is None:
        out.write("\nTo do this: save it with --save PLAN, review it, and give it to klamm apply --plan PLAN.\n")
        return
    limits = plan.limits_words
    command = shell_line(["klamm", "apply", "--plan", saved, *limits])
    command = command or " ".join(["klamm apply --plan with that file", *(limits and ["and", *limits])])
    counts = ((plan.create, "creates"), (plan.change, "changes"), (plan.delete, "removes"))
    does = ", ".join(f"{word} {counted(len(acls))}" for acls, word in counts if acls)
    out.write(f"\nTo do this, with the same options for the service ({does}, unless anything has changed since):\n")
    out.write(f"  {command}\n")


def changes_groups(plan: Plan) -> bool:
    """Whether an ACL of a group changes, which applies to all its members."""
    changed = [each.binding for each in (*plan.create, *plan.delete)] + [each.binding for each in plan.change]
    return any(is_group(each.principal) for each in changed)


def nobody_text(plan: Plan) -> str:
    return f"Nobody gains or loses any access{' without groups' if changes_groups(plan) else ''}."


def acl_line(acl: AclBinding) -> str:
    return f"{acl.permission_type.name} {_sentence(' ', acl_parts(acl))}"


def terms_changes(change: TermsChange) -> str:
    """`until 2026-12-01T18:00:00Z instead of for ever; owner "bob" instead of nobody`."""
    before, after = change.before, change.after
    texts = []
    if before.expires_at != after.expires_at:
        texts.append(f"{until_text(after.expires_at)} instead of {until_text(before.expires_at)}")
    if before.owner != after.owner:
        texts.append(f"owner {owner_text(after.owner)} instead of {owner_text(before.owner)}")
    return "; ".join(texts)


def _sentence(separator: str, parts: tuple[str, str, str, str]) -> str:
    who, what, resource, where = parts
    return f"{who}{separator}{what} on {resource}{f' from {where}' if where else ''}"


def acl_parts(acl: AclBinding) -> tuple[str, str, str, str]:
    return (
        readable(acl.principal),
        acl.operation.name,
        f"{acl.resource_type.name} {_pattern(acl.pattern_type, acl.resource_name)}",
        _where(Hosts(acl.host)),
    )


def change_parts(change: AccessChange) -> tuple[str, str, str, str]:
    """Who, which operations, on what and from where (empty for everywhere)."""
    return (
        _principals(change.principals),
        _operations(change.operations, change.resource_type),
        f"{change.resource_type.name} {_names(change.names)}",
        _where(change.hosts),
    )


def unresolved_parts(unresolved: Unresolved) -> tuple[str, str]:
    principal = unresolved.principal
    who = "all principals" if principal == WILDCARD_PRINCIPAL else readable(principal)
    return who, f"{counted(unresolved.changed_acls, 'changed ACL')} on {unresolved.resource_type.name}"


def summary_text(plan: Plan, files: int = 1) -> str:
    if plan.is_empty:
        text = f"Nothing to do: {_all_of_the_files(plan.unchanged, files)}."
    else:
        change = f"{len(plan.change)} to change, " if plan.change else ""
        text = f"{len(plan.create)} to create, {change}{len(plan.delete)} to delete, {plan.unchanged} unchanged."
    if plan.left_alone:
        are = "is" if plan.left_alone == 1 else "are"
        have = "the file does not have" if files == 1 else "the files do not have"
        text += f" {counted(plan.left_alone)} that {have} {are} left alone ({_why_left_alone(plan.prune)})."
    return text


def _why_left_alone(prune: Prune) -> str:
    narrowed = [("--prune-principal", prune.principals), ("--prune-prefix", prune.prefixes)]
    flags = " and ".join(flag for flag, given in narrowed if given)
    return f"outside of {flags}" if prune.wanted else "see --prune"


def _all_of_the_files(count: int, files: int) -> str:
    which = "the file" if files == 1 else f"the {files} files"
    if not count:
        return f"{which} {'has' if files == 1 else 'have'} no ACLs"
    return f"the one ACL of {which} exists already" if count == 1 else f"all {count} ACLs of {which} exist already"


def _principals(principals: Principals) -> str:
    if principals.name != WILDCARD_PRINCIPAL:
        return readable(principals.name)
    return "every principal" + _besides(map(readable, principals.besides))


def _operations(operations: Sequence[AclOperation], resource_type: ResourceType) -> str:
    known = supported_operations(resource_type)
    named = [each.name for each in operations if each in known]
    if len(named) == len(known):
        return "ALL"
    if named:
        return ", ".join(named)
    return f"{', '.join(each.name for each in operations)} (never requested on {resource_type.name})"


def _names(names: Names) -> str:
    return _pattern(names.pattern_type, names.name) + _besides(_pattern(*each) for each in names.besides)


def _pattern(pattern_type: PatternType, name: str) -> str:
    if pattern_type is PatternType.PREFIXED:
        return f"prefix {readable(name)}"
    return "of any name" if name == WILDCARD else readable(name)


def _where(hosts: Hosts) -> str:
    if hosts.host == WILDCARD and not hosts.besides:
        return ""
    return ("anywhere" if hosts.host == WILDCARD else readable(hosts.host)) + _besides(map(readable, hosts.besides))


def _besides(texts: Iterable[str]) -> str:
    every = list(texts)
    more = f" and {len(every) - _MAX_EXCEPTIONS} more" if len(every) > _MAX_EXCEPTIONS else ""
    return f" except {', '.join(every[:_MAX_EXCEPTIONS])}{more}" if every else ""


def _change_body(change: AccessChange) -> dict[str, object]:
    return {
        "change": "gain" if change.gained else "lose",
        "principal": change.principals.name,
        "principals_except": list(change.principals.besides),
        "host": change.hosts.host,
        "hosts_except": list(change.hosts.besides),
        "operations": [each.name for each in change.operations],
        "resource_type": change.resource_type.name,
        "pattern_type": change.names.pattern_type.name,
        "resource_name": change.names.name,
        "names_except": [
            {"pattern_type": pattern_type.name, "resource_name": name} for pattern_type, name in change.names.besides
        ],
        "example": {
            "principal": change.witness.principal,
            "client_address": change.witness.client_address,
            "resource_name": change.witness.resource_name,
        },
    }
