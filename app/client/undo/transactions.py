"""What transactions have changed, and what of that has changed since, from the records of a service."""

from collections.abc import Iterator, Mapping

from app.client.history import pages
from app.client.http.replies import ServiceError, parse_list, parse_object, parse_text
from app.client.http.service import PAGE_ACLS, Service
from app.client.undo.inverse import Json, Subject, subject_of
from app.core.kafka.bindings import AclBinding
from app.core.kafka.filters import AclBindingFilter
from app.core.token import Token
from app.formats.acl_bodies import filter_body
from app.formats.command_errors import UsageError

_MOST_CHANGES = 100_000
"""The most that are undone at once."""
_MOST_SINCE = 1_000_000
"""The most later changes that are searched for those of properties, which no filter finds."""


def changes_of(service: Service, first: Token, last: Token) -> tuple[list[Json], Token, bool]:
    """The changes of all transactions from that of `first` to that of `last`, newest first; the state after them.

    And whether changes of properties are among them.
    Raises ServiceError, and UsageError for a range in the wrong order.
    """
    newest = _change_at(service, last)
    oldest = newest if first == last else _change_at(service, first)
    # INVARIANT: offsets are compared only now that the service has found both tokens in one history.
    if first.offset > last.offset:
        raise UsageError(f"the range is in the wrong order; write the older token first: {last}..{first}")
    upto, of_first = parse_text(newest, "transaction"), parse_text(oldest, "transaction")
    changes: list[Json] = []
    for page in pages(service, {"until": upto}, _MOST_CHANGES + 1):
        for each in map(parse_object, parse_list(page, "changes")):
            if parse_text(each, "transaction") != of_first and _offset(each) < first.offset:
                return changes, Token.parse(upto), page.get("shows_configs") is True
            changes.append(each)
        if len(changes) > _MOST_CHANGES:
            raise ServiceError(f"more than {_MOST_CHANGES} changes can't be undone at once; name a shorter range")
        known = parse_object(page.get("known_since"))
    if known.get("recorded_at") is not None and _offset(changes[-1]) <= Token.parse(parse_text(known, "token")).offset:
        raise _too_old(first, known)
    return changes, Token.parse(upto), page.get("shows_configs") is True


def _change_at(service: Service, token: Token) -> Json:
    """Raises ServiceError."""
    around = {"since": str(Token(token.epoch, token.offset - 1)), "until": str(token)}
    try:
        (page,) = pages(service, around, 1)
    except ServiceError as error:
        if error.code not in ("TOKEN_EPOCH_MISMATCH", "TOKEN_EPOCH_INVALID"):
            raise
        raise ServiceError(
            f"the change `{token}` is not part of the store's history: it was lost when the store was restored or "
            "failed over, or is another store's (klamm log shows the changes that are part of it)",
            code=error.code,
            status=error.status,
        ) from None
    found = parse_list(page, "changes")
    if found:
        return parse_object(found[0])
    known = parse_object(page.get("known_since"))
    if token.offset <= Token.parse(parse_text(known, "token")).offset:
        raise _too_old(token, known)
    if page.get("shows_configs") is False:
        raise ServiceError(f"`{token}` is a change of a property; seeing it needs DescribeConfigs on the cluster")
    raise ServiceError(f"there is no change `{token}`; klamm log shows the tokens of changes")


def _too_old(token: Token, known: Json) -> ServiceError:
    return ServiceError(
        f"`{token}` is older than the records that are kept (they begin at `{known.get('token')}`, "
        f"{known.get('recorded_at')}), so the state before it is not known; restore ACLs from files with klamm plan"
    )


def changed_since(
    service: Service, subjects: Mapping[Subject, None], upto: Token, now: Token
) -> Mapping[Subject, Json]:
    """The last change of each subject after `upto`."""
    acls = [each for each in subjects if isinstance(each, AclBinding)]
    behind = {"since": str(upto), "until": str(now)}
    later: dict[Subject, Json] = {}
    if len(acls) == len(subjects) and len(acls) * PAGE_ACLS < now.offset - upto.offset:
        for acl in acls:
            wanted = {"filter": filter_body(AclBindingFilter(*acl))}
            for each in _listed(service, {**behind, **wanted}, 1):
                later[acl] = each
        return later
    if now.offset - upto.offset > _MOST_SINCE:
        raise ServiceError(
            f"more than {_MOST_SINCE} changes were made since then, too many to search for changes of properties; "
            "undo the transactions of ACLs separately, and set the properties by hand"
        )
    for each in _listed(service, behind, _MOST_SINCE):
        subject = subject_of(each)
        if subject in subjects:
            later.setdefault(subject, each)
    return later


def _listed(service: Service, body: Json, limit: int) -> Iterator[Json]:
    for page in pages(service, body, limit):
        yield from map(parse_object, parse_list(page, "changes"))


def _offset(change: Json) -> int:
    return Token.parse(parse_text(change, "token")).offset
