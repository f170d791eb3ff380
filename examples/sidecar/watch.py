# ruff: noqa: INP001 - a program of its own
"""Follow the ACLs of the Klamm beside this process: watch.py URL prints every change, with httpx alone."""

import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx

BOOKMARK_S = 5.0
BEGIN_ANEW = (httpx.codes.CONFLICT, httpx.codes.GONE)  # another epoch; or what follows the token is not kept any more
PASSING = (429, 500, 502, 503, 504)


class Follower:
    """`acls` by id and `configs` are those of `token`: always of one state, never of half a transaction."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        # A bookmark comes each 5 s, so a stream that says nothing for 15 s is broken.
        self._client = httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(3 * BOOKMARK_S, connect=5.0))
        self.token: str | None = None
        self.acls: dict[str, Any] = {}
        self.configs: dict[str, str] = {}

    def changes(self) -> Iterator[dict[str, Any]]:
        """Each record once it is applied, without end. Raises PermissionError if it may not watch."""
        pause_s = 0.1
        while True:
            began_at = time.monotonic()
            try:
                yield from self._stream()
            except httpx.TransportError as error:  # it is not there yet, it restarts, or the connection was cut
                sys.stderr.write(f"{error or type(error).__name__}; trying again\n")
            if time.monotonic() - began_at > BOOKMARK_S:
                pause_s = 0.1
            time.sleep(random.uniform(0.5, 1.0) * pause_s)  # noqa: S311 - spreads load, is no secret
            pause_s = min(2 * pause_s, 5.0)

    def _stream(self) -> Iterator[dict[str, Any]]:
        begin = {"snapshot": "true"} if self.token is None else {"after": self.token}
        # Klamm-Epochs: the stream, and the token, go on from one epoch of the store to the next.
        with self._client.stream("GET", "/v1/watch", params=begin, headers={"klamm-epochs": "1"}) as reply:
            if reply.status_code in BEGIN_ANEW:
                self.token = None
            elif reply.status_code not in (200, *PASSING):
                raise PermissionError(f"{reply.status_code}: {reply.read().decode(errors='replace')}")
            if reply.status_code != httpx.codes.OK:
                return
            rest = b""
            for chunk in reply.iter_bytes():  # not iter_lines: it takes more than \n for the end of a line
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield from self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        match event["type"]:
            case "snapshot":
                self._new: tuple[dict[str, Any], dict[str, str]] = ({}, {})
            case "acls":
                self._new[0].update((acl["id"], acl) for acl in event["acls"])
            case "configs":
                self._new[1].update(event["configs"])
            case "synced":  # until here it may have been cut; now it is whole
                (self.acls, self.configs), self.token = self._new, event["token"]
            case "transaction":
                for record in event["records"]:
                    self._apply(record)
                self.token = event["token"]
                yield from event["records"]
            case "bookmark":
                self.token = event["token"]
            # "end", and types of later versions: nothing to do

    def _apply(self, record: dict[str, Any]) -> None:
        match record["kind"]:
            case "AccessControlEntryRecord":  # a new ACL, or one with another end or owner
                self.acls[record["acl"]["id"]] = record["acl"]
            case "RemoveAccessControlEntryRecord":
                self.acls.pop(record["acl"]["id"], None)
            case "ConfigRecord" if record["value"] is None:
                self.configs.pop(record["name"], None)
            case "ConfigRecord":
                self.configs[record["name"]] = record["value"]


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and the URL
        sys.exit("usage: watch.py URL")
    follower = Follower(sys.argv[1])
    try:
        for change in follower.changes():
            sys.stdout.write(f"{json.dumps(change)}\n")
            sys.stdout.flush()
    except PermissionError as refused:
        sys.exit(str(refused))
    except KeyboardInterrupt:
        sys.exit(130)
