"""The front page: may somebody do something, why, and what would change it."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from app.client.explanations import Asked, Explained, explained
from app.client.http.replies import parse_acl
from app.console.api import ApiRefusedError
from app.console.difference import Change, in_hours
from app.console.pages import HOME, Pages, here, page, to
from app.console.past import recent
from app.console.questions import asked, line_of, resource_of
from app.console.timeline import covering
from app.console.visits import Visit, refusal_by_role
from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclPermissionType
from app.core.kafka.errors import Errors
from app.core.kafka.operations import ALLOW_MASK
from app.core.mutations import EXPIRY_ACTOR
from app.core.readable import backticked, visible
from app.formats.command_errors import UsageError
from app.formats.quoting import shell_line
from app.rest.http.edge import Reply

pages = Pages()

HOURS = 8
_SOON_S = 24 * 3_600.0
_LEAST_S = 2.0
_EXAMPLES = (
    "User:bob WRITE topic:orders from 10.1.2.3",
    "User:alice (groups eng, pii) READ group:reports from 10.1.2.3",
    "User:admin ALTER cluster from 127.0.0.1",
)
_MOST_EXAMPLES = 3
_LONGEST_EXAMPLE = 100


@pages.get(has_past=True)
async def ask(visit: Visit) -> Reply:
    line = visit.query.get("q", "")
    if visit.principal is None and not line:
        return to(f"{HOME}/state")
    shown: dict[str, Any] = {"line": line, "fault": None, "question": None, "found": None, "body": None}
    status = 200
    if line.strip() and visit.principal is None:
        raise refusal_by_role(visit, "ask")
    if line.strip():
        try:
            question, has_host = asked(line)
            body = await _explained(visit, question)
            found = explained(body["results"][0], body["token"])
        except UsageError as fault:
            shown["fault"], status = str(fault), 400
        except ApiRefusedError as refusal:
            shown["fault"], status = _why(visit, refusal), refusal.status
        else:
            shown |= {"question": question, "has_host": has_host, "found": found, "body": body["results"][0]}
            shown |= {"ways": _ways(found), "command": _command(question, visit)}
            shown |= {"ended": await _ended(visit, question, found), "again_ms": _again_ms(visit, found)}
    shown["examples"] = await _examples(visit) if shown["found"] is None else ()
    return await page(visit, "ask", status, back=here(visit), **shown)


def _why(visit: Visit, refusal: ApiRefusedError) -> str:
    if refusal.code != Errors.CLUSTER_AUTHORIZATION_FAILED.value or visit.principal is None or visit.reads:
        return refusal.detail
    return f"{backticked(visit.principal)} needs DESCRIBE on the cluster to ask about others; it may ask about itself"


async def _explained(visit: Visit, question: Asked) -> Any:  # noqa: ANN401 - JSON
    fields = question.fields
    action = {name: fields[name] for name in ("operation", "resource_type", "resource_name")}
    about = {name: fields[name] for name in ("principal", "client_address", "groups") if name in fields}
    return await visit.api.post("/v1/explain", visit.then({"actions": [action], "about": about}))


async def _ended(visit: Visit, question: Asked, found: Explained) -> Sequence[Any]:
    """Removals of ended ACLs that had allowed it, from this address or from others."""
    if found.is_allowed or not visit.reads:
        return ()
    of_it = {**covering(question.resource_type, question.resource_name), "principal": question.principal}
    removed = await recent(visit, of_it, actor=EXPIRY_ACTOR)
    return [each for each in removed if _allows(parse_acl(each["acl"]).binding, question)]


def _allows(acl: AclBinding, question: Asked) -> bool:
    is_allow = acl.permission_type is AclPermissionType.ALLOW
    return is_allow and bool(ALLOW_MASK[acl.operation] >> question.operation & 1)


def _again_ms(visit: Visit, found: Explained) -> int | None:
    """Milliseconds until the page asks again, because the ACL that decides ends; None if it does not end soon."""
    if visit.at is not None or found.acl is None or found.acl.expires_at is None:
        return None
    left_s = found.acl.expires_at.timestamp() - time.time()
    return None if left_s > _SOON_S else int(max(left_s, _LEAST_S) * 1000)


def _ways(found: Explained) -> Mapping[str, str]:
    """Changes to plan, as forms carry them, by what their buttons say."""
    smallest = found.smallest or found.needed_besides
    if found.denying_count > len(found.denying):
        return {}
    create = () if smallest is None else (NewAcl(smallest, None),)
    if found.denying:
        return {"Remove what denies it": Change(create, tuple(found.denying)).to_json()}
    if smallest is None:
        return {}
    for_hours = Change((NewAcl(smallest, in_hours(HOURS)),))
    return {f"Allow for {HOURS} hours": for_hours.to_json(), "Allow for good": Change(create).to_json()}


def _command(question: Asked, visit: Visit) -> str | None:
    resource = resource_of(question)
    if visit.principal is None:
        return None
    words = ["klamm", "why", question.principal, question.operation.name, resource, "--host", question.host]
    groups = [word for each in question.groups for word in ("--group", each)]
    return shell_line([*words, *groups, "--as", visit.principal])


async def _examples(visit: Visit) -> list[str]:
    """Questions about what is in the store, so that a newcomer gets answers that mean something."""
    found: list[str] = []
    if visit.reads:
        try:
            acls = (await visit.api.post("/v1/acls/search", {"filter": {}, "limit": 200}))["acls"]
        except ApiRefusedError:
            acls = []
        for each in acls:
            binding = parse_acl(each).binding
            example = _example(binding)
            if example is not None and all(binding.principal not in one for one in found):
                found.append(example)
            if len(found) == _MOST_EXAMPLES:
                break
    if not visit.reads and visit.principal is not None:
        return [each for each in (f"{visit.principal} READ topic:orders from 10.1.2.3",) if visible(each) == each]
    return found or list(_EXAMPLES)


def _example(binding: AclBinding) -> str | None:
    if binding.principal == WILDCARD_PRINCIPAL or binding.resource_name == WILDCARD or binding.operation.name == "ALL":
        return None
    host = "10.1.2.3" if binding.host == WILDCARD or "/" in binding.host else binding.host
    question = Asked(binding.principal, binding.operation, binding.resource_type, binding.resource_name, host)
    line = line_of(question)
    # A question is typed, so it can't be about a principal that ends with a blank.
    return line if len(line) <= _LONGEST_EXAMPLE and visible(line) == line and _is_about(question, line) else None


def _is_about(question: Asked, line: str) -> bool:
    try:
        return asked(line)[0] == question
    except UsageError:
        return False
