"""The followers between this one and the store: none may follow itself, directly or through others."""

import re
from collections.abc import Sequence

from app.core.kafka.errors import StoreUnavailableException

_MOST = 16
_LOOP = "this follower would follow itself; set upstream.urls to a service that is nearer to the store"
_TOO_LONG = f"more than {_MOST} followers in a row; follow a service that is nearer to the store"
_ID = re.compile(r"[0-9A-Za-z._-]{1,64}+")


class FollowerChain:
    def __init__(self, own: str) -> None:
        self.above: Sequence[str] = ()
        """Ids of the followers from the service that is followed, or was asked last, on towards the store."""
        self.own = own

    @property
    def ids(self) -> Sequence[str]:
        return self.own, *self.above

    def check(self, chain: Sequence[str]) -> None:
        """Takes the chain of the service that is followed. Raises StoreUnavailableException."""
        if self.own in chain:
            self.above = chain[: chain.index(self.own)]
            raise StoreUnavailableException(_LOOP)
        if len(chain) >= _MOST:
            raise StoreUnavailableException(_TOO_LONG)
        if not all(map(_ID.fullmatch, chain)):
            raise StoreUnavailableException("the upstream names followers by what is no id")
        self.above = chain

    def asking(self, asked_by: Sequence[str] = ()) -> str:
        """The ids of the followers that ask on behalf of one another, this one's last, as a header.

        Raises StoreUnavailableException.
        """
        ids = [*asked_by, self.own]
        if len(set(ids)) < len(ids):
            raise StoreUnavailableException(_LOOP)
        if len(ids) > _MOST:
            raise StoreUnavailableException(_TOO_LONG)
        return ",".join(ids)
