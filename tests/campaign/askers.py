"""Who asks every node all the time, and judges each answer by what was acknowledged."""

import math
import threading
import time
from contextlib import suppress
from typing import Self

from tests.campaign.journal import Journal
from tests.campaign.ledger import Ledger, Operation
from tests.campaign.nodes import Node, Reply, ServiceNode

AT_MOST_S = 10.0
"""So long an answer without a token may allow what was revoked, unless the node is cut off."""
SETTLED_S = 30.0
"""So long after a way to the store is there again a node may need until it follows."""
_NAMES = 20
_ASK_EVERY_S, _TOKEN_EVERY_S = 0.3, 0.15
_SLACK_S = 0.6
"""Ages are shown to a tenth of a second, and are those of an answer's way."""
_BUSY_S = 5.0
"""What a busy machine may add to AT_MOST_S."""

NO_TOKEN = "an answer without a token is no older than its node says"
REVOKED = "a revoked right is allowed for ten seconds at most, or its node is cut off and says its age"
TOKEN = "an answer with a token is no older than the token"
SURVIVES = "a token of the history that goes on is never refused"


class Askers:
    """For each node a thread that asks without tokens, for each service one that asks with them."""

    def __init__(self, ledger: Ledger, journal: Journal, nodes: list[Node]) -> None:
        self._ledger, self._journal = ledger, journal
        self._stopped = threading.Event()
        self.mark: Operation | None = None
        """A name that is asked for each time."""
        self._threads = [threading.Thread(target=self._ask, args=(node,), daemon=True) for node in nodes]
        self._threads += [
            threading.Thread(target=self._ask_with_tokens, args=(node,), daemon=True)
            for node in nodes
            if isinstance(node, ServiceNode)
        ]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join(30)

    def _ask(self, node: Node) -> None:
        while not self._stopped.wait(_ASK_EVERY_S):
            if not node.is_up:
                continue
            mark = self.mark
            names = self._ledger.names_to_ask(_NAMES) + ([] if mark is None else [mark.name])
            if names:
                # Whatever ends the node meanwhile: it has not answered then.
                with suppress(AttributeError):
                    self.ask_once(node, names, mark)

    def ask_once(self, node: Node, names: list[str], mark: Operation | None = None) -> bool:
        """Whether there was an answer, which is judged."""
        forged, fed_since = node.forged, node.fed_since
        asked_age_at = time.monotonic()
        age_s = node.age_s()
        asked_at = time.monotonic()
        verdicts = node.ask(names)
        answered_at = time.monotonic()
        if not verdicts:
            return False
        if mark is not None and verdicts.get(mark.name) and mark.name not in node.seen:
            node.seen[mark.name] = answered_at
            if node.forged is not None and mark.sent_at > node.forged:
                self._journal.took("from the end of a forged upstream on", answered_at - node.forged, node.name)
                node.forged = None
        if forged is None and node.forged is None:
            self._journal.checked("answers without a token", len(verdicts))
            current_at = -math.inf if age_s is None else asked_age_at - age_s - _SLACK_S
            for name, verdict in verdicts.items():
                self._judge(node, name, verdict, (current_at, answered_at))
                if verdict:
                    self._judge_revoked(node, name, asked_at, fed_since)
        return True

    def _judge(self, node: Node, name: str, verdict: bool, window: tuple[float, float]) -> None:  # noqa: FBT001
        if verdict not in self._ledger.possible(name, *window):
            age = f"was current {window[1] - window[0]:.1f} s before by its own word"
            said = "ALLOWED" if verdict else "DENIED"
            self._journal.violation(NO_TOKEN, node.name, f"{name} is {said}; the node {age}")

    def _judge_revoked(self, node: Node, name: str, asked_at: float, fed_since: float | None) -> None:
        deleted_at = self._ledger.deleted_at(name)
        if deleted_at is None or deleted_at > asked_at:
            return
        late_s = asked_at - deleted_at
        # It may have been frozen while it was asked for its age.
        if fed_since is None or node.fed_since != fed_since or fed_since + SETTLED_S > deleted_at:
            self._journal.took("ALLOWED after the deletion, cut off or just come back", late_s, node.name)
            return
        self._journal.took("ALLOWED after the deletion, with a way to the store", late_s, node.name)
        if late_s > AT_MOST_S + _BUSY_S:
            self._journal.violation(REVOKED, node.name, f"{name} is ALLOWED {late_s:.1f} s after its deletion")

    def _ask_with_tokens(self, node: ServiceNode) -> None:
        while not self._stopped.wait(_TOKEN_EVERY_S):
            operation = self._ledger.operation_to_ask()
            if operation is None or not node.is_up or node.forged is not None:
                continue
            was_lost = operation.is_lost
            reply = node.ask_at([operation.name], operation.token)
            if node.forged is None:
                self._judge_with_token(node, operation, reply, was_lost=was_lost)

    def _judge_with_token(self, node: Node, operation: Operation, reply: Reply, *, was_lost: bool) -> None:
        if reply.code:
            self._journal.checked(f"tokens answered {reply.code}")
            if reply.code == "TOKEN_EPOCH_MISMATCH" and not was_lost and not operation.is_lost:
                self._journal.violation(SURVIVES, node.name, f"{operation.token} of {operation.name} is refused")
            return
        self._journal.checked("tokens satisfied")
        verdict = reply.verdicts[operation.name]
        if verdict not in self._ledger.may_be_allowed_with(operation):
            said = "ALLOWED" if verdict else "DENIED"
            what = "creation" if operation.present else "deletion"
            lost = ", which is lost" if operation.is_lost else ""
            text = f"{operation.name} is {said} with {operation.token} of its {what}{lost}"
            self._journal.violation(TOKEN, node.name, text)
