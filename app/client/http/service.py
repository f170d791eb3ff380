"""The calls to a running Klamm."""

import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from app.client.http.access import Access
from app.client.http.replies import (
    AclListing,
    CreateResult,
    DeleteResult,
    ServiceError,
    parse_acl,
    parse_created,
    parse_deleted,
    parse_list,
    parse_refusal,
    parse_text,
    strange_reply,
)
from app.core.backoff import Backoff
from app.core.kafka.bindings import NewAcl, StandardAcl
from app.core.kafka.filters import AclBindingFilter
from app.formats.acl_bodies import acl_body, filter_body

PAGE_ACLS = 1_000
"""The largest page that the service gives."""

MAX_CALL_BYTES = 6 * 1024 * 1024
"""The most bytes of ACLs in one call, as JSON; the service takes bodies of 8 MiB."""

_MAX_LOOKS = 8
"""How often a listing starts again because the ACLs changed meanwhile."""

_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 1.0
_MAX_SERVICE_TIMEOUT_MS = 300_000
_SERVICE_SHARE = 0.9
"""The share of a call's time that the service may take, so that it is the first to report a timeout."""


class Service:
    """Reads are always retried, updates only if they can't have been carried out.

    All calls raise ServiceError, or UsageError if a token can't be read.
    """

    def __init__(self, access: Access) -> None:
        """Raises UsageError if a certificate, a key or an authority can't be used."""
        from app.client.http.exchange import Exchange  # noqa: PLC0415 - httpx takes long to load, and help needs none of it

        self._access = access
        self._exchange = Exchange(access)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exchange.close()

    @property
    def url(self) -> str:
        return self._access.url

    @property
    def principal(self) -> str:
        return self._access.principal

    @property
    def timeout_s(self) -> float:
        return self._access.timeout_s

    def get(self, path: str) -> dict[str, Any]:
        return self._exchange.answer("GET", path, None, idempotent=True, timeout_s=self.timeout_s)

    def post(
        self, path: str, body: Mapping[str, object], *, timeout_s: float | None = None, idempotent: bool = False
    ) -> dict[str, Any]:
        """Adds `context` if the body has none.

        `idempotent`: it may be retried whatever its outcome.
        """
        context = {"principal": self.principal, "client_address": self._access.client_address}
        content = json.dumps({"context": context, **body}, separators=(",", ":")).encode()
        left_s = self.timeout_s if timeout_s is None else timeout_s
        return self._exchange.answer("POST", path, content, idempotent=idempotent, timeout_s=left_s)

    def create_acls(
        self,
        acls: Sequence[NewAcl],
        *,
        if_unchanged_since: str | None = None,
        timeout_s: float | None = None,
        comment: str | None = None,
    ) -> tuple[list[CreateResult], str]:
        """One result for each ACL, in order, and the token of the state that has them (KIP-140).

        An existing ACL gets the terms given here. With `if_unchanged_since` nothing is created unless the store is
        still at that token.
        """
        body = {"bindings": [acl_body(each) for each in acls]}
        reply = self._update("/v1/acls", _remarked(body, if_unchanged_since, comment), timeout_s)
        return [parse_created(each) for each in _results(reply, len(acls))], parse_text(reply, "token")

    def delete_acls(
        self,
        filters: Sequence[AclBindingFilter],
        *,
        if_unchanged_since: str | None = None,
        comment: str | None = None,
    ) -> tuple[list[DeleteResult], str]:
        """As `create_acls`, with one result for each filter."""
        body = {"filters": [filter_body(each) for each in filters]}
        reply = self._update("/v1/acls/delete", _remarked(body, if_unchanged_since, comment))
        return [parse_deleted(each) for each in _results(reply, len(filters))], parse_text(reply, "token")

    def alter_configs(
        self, values: Mapping[str, str | None], *, if_unchanged_since: str | None = None, comment: str | None = None
    ) -> str:
        """Sets properties, or returns them to their start-up values (None), and returns the token of the state after.

        Guarded as `create_acls` is. Raises ServiceError also if a property is refused.
        """
        body = {"configs": [{"name": name, "value": value} for name, value in values.items()]}
        reply = self._update("/v1/configs", _remarked(body, if_unchanged_since, comment))
        refusals = [
            f"`{name}` ({each})"
            for name, each in zip(values, map(parse_refusal, _results(reply, len(values))), strict=True)
            if each is not None
        ]
        if refusals:
            raise ServiceError(f"the service refused to change {'; '.join(refusals)}")
        return parse_text(reply, "token")

    def acls(self, acl_filter: AclBindingFilter, *, limit: int = PAGE_ACLS, at: str | None = None) -> AclListing:
        """`limit` is the size of a page (1 to 1,000); `at` a token or a time of the past.

        Raises ServiceError if the ACLs change too fast.
        """
        for _ in looks():
            wanted = {"filter": filter_body(acl_filter), **({} if at is None else {"at": at})}
            listing = self._listed(wanted, limit)
            if listing is not None:
                return listing
        raise self._too_fast()

    def all_rows(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """The reply of whoCan or whatCan with the rows of all its pages. Raises ServiceError as `acls` does."""
        for _ in looks():
            whole = page = self.post(path, {**body, "limit": PAGE_ACLS}, idempotent=True)
            rows = parse_list(whole, "rows")
            while (cursor := page.get("next_cursor")) is not None:
                page = self.post(path, {**body, "limit": PAGE_ACLS, "cursor": cursor}, idempotent=True)
                if page.get("token") != whole.get("token"):
                    break
                rows += parse_list(page, "rows")
            else:
                return {**whole, "rows": rows, "next_cursor": None}
        raise self._too_fast()

    def _too_fast(self) -> ServiceError:
        return ServiceError(
            f"the ACLs at `{self.url}` change faster than they can be listed; ask for fewer of them, or try again later"
        )

    def _listed(self, wanted: Mapping[str, object], limit: int) -> AclListing | None:
        """None if the ACLs changed between the first page and the last."""
        found: list[StandardAcl] = []
        first, cursor = self._page(wanted, limit, None, found)
        if cursor is None:
            # One page is one state of the ACLs, unless they changed while the service was searching.
            return AclListing(found, first)
        while cursor is not None:
            token, cursor = self._page(wanted, limit, cursor, found)
            if token != first:
                return None
        # What changed while the last page was searched may be in it.
        last, _ = self._page(wanted, 1, None, [])
        return AclListing(found, first) if last == first else None

    def _page(
        self, wanted: Mapping[str, object], limit: int, cursor: str | None, found: list[StandardAcl]
    ) -> tuple[str, str | None]:
        """Adds the page's ACLs to `found`. Returns its token and the cursor of the next page."""
        body = {**wanted, "limit": limit, **({} if cursor is None else {"cursor": cursor})}
        reply = self.post("/v1/acls/search", body, idempotent=True)
        found += [parse_acl(each) for each in parse_list(reply, "acls")]
        following = reply.get("next_cursor")
        return parse_text(reply, "token"), following if isinstance(following, str) else None

    def _update(self, path: str, body: Mapping[str, object], timeout_s: float | None = None) -> dict[str, Any]:
        timeout_ms = int((self.timeout_s if timeout_s is None else timeout_s) * 1_000 * _SERVICE_SHARE)
        body = {**body, "timeout_ms": max(1, min(timeout_ms, _MAX_SERVICE_TIMEOUT_MS))}
        return self.post(path, body, timeout_s=timeout_s)


def _remarked(body: Mapping[str, object], if_unchanged_since: str | None, comment: str | None) -> dict[str, object]:
    about = {"if_unchanged_since": if_unchanged_since, "comment": comment}
    return {**body, **{name: text for name, text in about.items() if text is not None}}


def looks() -> Iterator[None]:
    """The tries to read something at one token. The pauses between them let a burst of changes pass, and replicas that
    follow each other catch up.
    """
    backoff = Backoff(_PAUSE_S, _LONGEST_PAUSE_S, random.uniform)
    for look in range(_MAX_LOOKS):
        if look:
            time.sleep(backoff.next_s())
        yield


def batches(acls: Iterable[NewAcl], most: int) -> Iterator[list[NewAcl]]:
    """The ACLs in lists as long as one call takes, and of at most `most`."""
    batch: list[NewAcl] = []
    size = 0
    for acl in acls:
        own = len(json.dumps(acl_body(acl))) + 1
        if batch and (len(batch) == most or size + own > MAX_CALL_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(acl)
        size += own
    if batch:
        yield batch


def _results(reply: Mapping[str, object], expected: int) -> list[object]:
    results = parse_list(reply, "results")
    if len(results) != expected:
        raise strange_reply(f"{len(results)} results for {expected} entries")
    return results
