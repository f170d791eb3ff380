"""An export of the feed: the events of one snapshot (docs/feed.md). It holds ids and digest, so it can be proved."""

from collections.abc import Iterator

from app.core.digest import MODULUS, acl_digest, config_digest
from app.core.kafka.bindings import NewAcl, StandardAcl
from app.core.kafka.validation import validate_new_acl, validate_terms
from app.formats.acl_entries import Entry, Problem
from app.formats.feed_events import Acls, Bookmark, Configs, End, Event, NoEventError, Snapshot, Synced, events_in
from app.formats.feed_values import acl_in, digest_of
from app.formats.reading import Reading
from app.formats.source import Outline, Source


def is_feed_snapshot(outline: Outline) -> bool:
    return outline.is_lines and outline.texts.get("type") == "snapshot"


def read_feed_snapshot(source: Source, _: Reading) -> Iterator[Entry]:
    """Its ACLs; that some are missing, were changed or came twice is a problem at its end. Properties are passed over.

    What has changed behind the snapshot is a problem as well: the ACLs of a file are those of one state.
    """
    found = _Snapshot()
    try:
        for line, event in events_in(source.stream):
            for acl in found.take(line, event):
                new = NewAcl(acl.binding, *acl.terms)
                refusal = validate_new_acl(acl.binding) or validate_terms(new)
                yield line, new if refusal is None else [Problem(refusal.message)]
    except (NoEventError, ValueError) as fault:
        yield found.line, [Problem(str(fault))]
        return
    problem = found.problem
    if problem is not None:
        yield found.line, [Problem(problem)]


class _Snapshot:
    def __init__(self) -> None:
        self.line = 1
        self._begun: Snapshot | None = None
        self._synced: Synced | None = None
        self._acls = self._configs = self._digest = 0

    def take(self, line: int, event: Event) -> Iterator[StandardAcl]:
        """The ACLs of the event. Raises NoEventError for one that is no part of a snapshot."""
        self.line = line
        match event:
            case Snapshot() if self._begun is None:
                self._begun = event
            case Acls() if self._synced is None and self._begun is not None:
                for acl in map(acl_in, event.acls):
                    self._acls += 1
                    self._digest += acl_digest(acl)
                    yield acl
            case Configs() if self._synced is None and self._begun is not None:
                self._configs += len(event.configs)
                self._digest += sum(config_digest(*each) for each in event.configs.items())
            case Synced() if self._synced is None and self._begun is not None:
                self._synced = event
            case Bookmark() | End() if self._synced is not None and event.token in (None, self._synced.token):
                pass
            case _:
                raise NoEventError(
                    "it holds more than one snapshot, or parts of one without its beginning; export the ACLs again"
                )

    @property
    def problem(self) -> str | None:
        """Why this is not the whole of it."""
        begun, synced = self._begun, self._synced
        if begun is None or synced is None or begun.token != synced.token:
            return "the snapshot is incomplete; export the ACLs again"
        if (begun.acl_count, begun.config_count) != (self._acls, self._configs):
            return (
                f"the snapshot holds {self._acls} ACLs and {self._configs} properties, but should hold "
                f"{begun.acl_count} and {begun.config_count}; export the ACLs again"
            )
        if synced.digest not in (None, digest_of(self._digest % MODULUS)):
            return "the snapshot does not match its digest, so it was changed; export the ACLs again"
        return None
