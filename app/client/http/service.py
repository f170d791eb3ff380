"""The calls to a running Klamm."""

import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

from app.client.http.access import Access
from app.client.http.replies import (
    AclListing,
    CreateResult,
    DeleteResult,
    ServiceError,
    parse_acls,
    parse_created,
    parse_deleted,
    parse_list,
    parse_refusal,
    parse_text,
    strange_reply,
)
from app.core.backoff import Backoff
from app.core.kafka.bindings import NewAcl
from app.core.kafka.filters import AclBindingFilter
from app.formats.acl_bodies import acl_body, filter_body

PAGE_ACLS = 1_000
"""The largest page that the service gives."""

MAX_CALL_BYTES = 6 * 1024 * 1024
"""The most bytes of ACLs in one call, as JSON; the service takes bodies of 8 MiB, and 16 MiB of records."""

_MAX_LOOKS = 8
"""How often a listing starts again because the ACLs changed meanwhile."""

_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 1.0
_PAST_PATIENCE_S = 10.0
"""For a page of the past; if there is none by then, another look at the present may do."""
_MAX_SERVICE_TIMEOUT_MS = 300_000
_SERVICE_SHARE = 0.9
"""The share of a call's time that the service may take, so that it is the first to report a timeout."""


class TooFastError(ServiceError):
    """The ACLs change faster than they can be read as of one token."""


class _ChangedError(Exception):
    """The ACLs changed while they were listed, and the service refuses to tell how they were."""

    def __init__(self, refusal: ServiceError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


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

    def lines(
        self, path: str, *, silence_s: float, headers: Mapping[str, str] = MappingProxyType({})
    ) -> Iterator[bytes]:
        """As in `app.client.http.exchange.Exchange`."""
        return self._exchange.lines(path, silence_s=silence_s, headers=headers)

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
        results, token = self._update("/v1/acls", body, if_unchanged_since, comment, timeout_s)
        return list(map(parse_created, results)), token

    def delete_acls(
        self,
        filters: Sequence[AclBindingFilter],
        *,
        if_unchanged_since: str | None = None,
        comment: str | None = None,
    ) -> tuple[list[DeleteResult], str]:
        """As `create_acls`, with one result for each filter."""
        body = {"filters": [filter_body(each) for each in filters]}
        results, token = self._update("/v1/acls/delete", body, if_unchanged_since, comment)
        return list(map(parse_deleted, results)), token

    def alter_configs(
        self, values: Mapping[str, str | None], *, if_unchanged_since: str | None = None, comment: str | None = None
    ) -> str:
        """Sets properties, or returns them to their start-up values (None), and returns the token of the state after.

        Guarded as `create_acls` is. Raises ServiceError also if a property is refused.
        """
        body = {"configs": [{"name": name, "value": value} for name, value in values.items()]}
        results, token = self._update("/v1/configs", body, if_unchanged_since, comment)
        named = zip(values, map(parse_refusal, results), strict=True)
        refusals = [f"`{name}` ({refusal})" for name, refusal in named if refusal is not None]
        if refusals:
            raise ServiceError(f"the service refused to change {'; '.join(refusals)}")
        return token

    def acls(
        self, acl_filter: AclBindingFilter, *, limit: int = PAGE_ACLS, at: str | None = None, token: str | None = None
    ) -> AclListing:
        """`limit` is the size of a page (1 to 1,000); `at` a token or a time of the past. With `token`, that of a reply
        a moment ago, it is the list of that state.

        Raises ServiceError, or TooFastError if the ACLs change too fast.
        """
        path, body = "/v1/acls/search", {"filter": filter_body(acl_filter), **({} if at is None else {"at": at})}
        pages = self._all_pages(path, body, limit, token, may_be_newer=True)
        listed = [acl for page in pages for acl in parse_acls(page, "acls")]
        return AclListing(listed, parse_text(pages[0], "token"))

    def all_rows(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """The reply of whoCan or whatCan with the rows of all its pages. Raises as `acls` does."""
        pages = self._all_pages(path, body, PAGE_ACLS, None, may_be_newer=False)
        rows = [row for page in pages for row in parse_list(page, "rows")]
        return {**pages[0], "rows": rows, "next_cursor": None}

    def _all_pages(
        self, path: str, body: Mapping[str, object], limit: int, token: str | None, *, may_be_newer: bool
    ) -> list[dict[str, Any]]:
        """All pages as of one token. `may_be_newer`: a page may hold changes that were made after its token."""
        asked, refusal = {**body, "limit": limit}, ""
        # Whoever has read a state elsewhere looks again at all of it.
        for _ in looks() if token is None else (None,):
            try:
                if "at" in body:
                    return self._pages_at(path, asked)
                return list(self._pages(path, asked, token, may_be_newer=may_be_newer))
            except _ChangedError as changed:
                refusal = f", and it can't list them as they were ({changed.refusal})"
        raise TooFastError(
            f"the ACLs at `{self.url}` change faster than they can be listed{refusal}; ask for fewer of them, or try "
            "again later"
        )

    def _pages(
        self, path: str, asked: Mapping[str, object], token: str | None, *, may_be_newer: bool
    ) -> Iterator[dict[str, Any]]:
        """Asks for the present while it is the state of `token`, or of the first page, and then for that of the past.

        Raises _ChangedError if the service can't tell the past.
        """
        page = self.post(path, asked, idempotent=True)
        first = token or parse_text(page, "token")
        is_first = True
        while parse_text(page, "token") == first:
            cursor = page.get("next_cursor")
            # One page alone is one state of the ACLs.
            if cursor is None and (is_first or not may_be_newer):
                yield page
                return
            following = {**asked, "limit": 1} if cursor is None else {**asked, "cursor": cursor}
            proof = self.post(path, following, idempotent=True)
            if parse_text(proof, "token") != first:
                break
            yield page
            if cursor is None:
                return
            asked, page, is_first = following, proof, False
        try:
            pages = self._pages_at(path, {**asked, "at": first}, _PAST_PATIENCE_S)
        except ServiceError as refusal:
            if refusal.status is None:
                raise
            raise _ChangedError(refusal) from None
        if parse_text(pages[0], "token") != first:
            raise _of_another_state()
        yield from pages

    def _pages_at(self, path: str, asked: Mapping[str, object], timeout_s: float | None = None) -> list[dict[str, Any]]:
        """The pages of the past, from the one asked for on."""
        pages = [self.post(path, asked, idempotent=True, timeout_s=timeout_s)]
        # A time of the past becomes the token of its state.
        asked = {**asked, "at": parse_text(pages[0], "token")}
        while (cursor := pages[-1].get("next_cursor")) is not None:
            pages.append(self.post(path, {**asked, "cursor": cursor}, idempotent=True, timeout_s=timeout_s))
            if parse_text(pages[-1], "token") != asked["at"]:
                raise _of_another_state()
        return pages

    def _update(
        self,
        path: str,
        body: Mapping[str, Sequence[object]],
        if_unchanged_since: str | None,
        comment: str | None,
        timeout_s: float | None = None,
    ) -> tuple[list[object], str]:
        """A result for each entry of the one list in `body`, in order, and the token of the state after."""
        timeout_ms = int((self.timeout_s if timeout_s is None else timeout_s) * 1_000 * _SERVICE_SHARE)
        about = {"if_unchanged_since": if_unchanged_since, "comment": comment}
        given = {name: text for name, text in about.items() if text is not None}
        bounds = {"timeout_ms": max(1, min(timeout_ms, _MAX_SERVICE_TIMEOUT_MS))}
        reply = self.post(path, {**body, **given, **bounds}, timeout_s=timeout_s)
        results = parse_list(reply, "results")
        expected = sum(map(len, body.values()))
        if len(results) != expected:
            raise strange_reply(f"{len(results)} results for {expected} entries")
        return results, parse_text(reply, "token")


def _of_another_state() -> ServiceError:
    return strange_reply("a page is of another state than was asked for")


def looks() -> Iterator[None]:
    """The tries to read something at one token. The pauses between them let a burst of changes pass, and replicas that
    follow each other catch up.
    """
    backoff = Backoff(_PAUSE_S, _LONGEST_PAUSE_S, random.uniform)
    for look in range(_MAX_LOOKS):
        if look:
            time.sleep(backoff.next_s())
        yield


def batches(acls: Iterable[NewAcl], most: int, comment: str | None) -> Iterator[list[NewAcl]]:
    """The ACLs in lists as long as one call takes, and of at most `most`. Each record repeats the comment."""
    batch: list[NewAcl] = []
    size = 0
    for acl in acls:
        own = len(json.dumps(acl_body(acl))) + 1 + len((comment or "").encode())
        if batch and (len(batch) == most or size + own > MAX_CALL_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(acl)
        size += own
    if batch:
        yield batch
