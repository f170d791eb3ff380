"""The changes that a service has recorded: page by page, and each as a line."""

from collections.abc import Iterator, Mapping

from app.client.acl_texts import stored_acl_text, terms_text
from app.client.http.replies import parse_acl, parse_list, parse_object, parse_terms, parse_text, text_or_none
from app.client.http.service import PAGE_ACLS, Service
from app.core.readable import quoted_name, readable

NO_CONFIGS = "changes of properties are left out: they need DescribeConfigs on the cluster"
_SIGNS = {"CREATED": "+", "CHANGED": "~", "DELETED": "-", "CONFIGURED": "="}


def pages(service: Service, body: Mapping[str, object], limit: int) -> Iterator[Mapping[str, object]]:
    """Pages of at most `limit` changes together, newest first: they go back in time, so new changes don't matter.

    A page may be empty and yet not be the last. Raises ServiceError.
    """
    cursor: dict[str, object] = {}
    while True:
        asked = {**body, **cursor, "limit": min(limit, PAGE_ACLS)}
        page = service.post("/v1/history", asked, idempotent=True)
        yield page
        limit -= len(parse_list(page, "changes"))
        if page.get("next_cursor") is None or limit <= 0:
            return
        cursor = {"cursor": page["next_cursor"]}


def sign_of(change: Mapping[str, object]) -> str:
    return _SIGNS.get(parse_text(change, "change"), "?")


def what_changed(change: Mapping[str, object]) -> tuple[str, str]:
    """What it is now, and what it was before."""
    if change.get("config") is not None:
        config = parse_object(change["config"])
        value, before = (value_text(text_or_none(config, name)) for name in ("value", "prior_value"))
        return f"{readable(parse_text(config, 'name'))}: {value}", before
    before = "" if change.get("prior") is None else terms_text(parse_terms(change["prior"]))
    return stored_acl_text(parse_acl(change.get("acl"))), before


def value_text(value: str | None) -> str:
    return "its start-up value" if value is None else quoted_name(value)
