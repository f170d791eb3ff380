"""ALLOWs with an end on followers: without a database, behind who is killed or frozen, by wrong wall clocks."""

import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.asking_again import client_of
from tests.klamm import Json, Process, acl, action, context, over_socket, wait_until
from tests.postgres import Store
from tests.proof.e2e.test_expiry import (
    ACTIONS,
    HOUR,
    QUESTION,
    Sampling,
    allow_until,
    asked_while_frozen,
    off_by,
    removals,
    rfc3339,
)
from tests.proof.e2e.test_state_file import free_port

ENDS_S = 25, 45


def follower_of(url: str, port: str, **variables: str) -> Process:
    return over_socket("--upstream", url, "--port", port, settings=variables)


def question(name: str) -> Json:
    return {"context": context("User:alice"), "actions": [action(name)] * ACTIONS}


def frozen_answers(service: Process, asked: Json, ends_at: int) -> list[list[str]]:
    """What a process that stands still over the end answers first, on connections of before."""
    with ExitStack() as stack:
        clients = [stack.enter_context(client_of(service.url)) for _ in range(4)]
        return asked_while_frozen([service.process.pid], clients, asked, ends_at)


def denied(answers: Sequence[Sequence[str]]) -> bool:
    return bool(answers) and all(set(results) == {"DENIED"} for results in answers)


def test_an_allow_ends_on_followers_whose_upstream_is_killed_or_frozen_without_a_database(
    store: Store, tmp_path: Path
) -> None:
    root_port, near_port, far_port = free_port(), free_port(), free_port()
    kept = {"KLAMM_STATE_PATH": str(tmp_path / "state"), **off_by(tmp_path, -HOUR)}
    with ExitStack() as stack:
        root = stack.enter_context(over_socket("--port", root_port, settings={"KLAMM_DATABASE_URL": store.dsn})).ready()
        near = stack.enter_context(follower_of(root.url, near_port, **off_by(tmp_path, HOUR))).ready()
        far = stack.enter_context(follower_of(near.url, far_port, **kept)).ready()
        for service, seconds in (near, HOUR), (far, -HOUR):
            assert any(f"off by {seconds} s" in line for line in service.lines)
        file = tmp_path / "state" / "image.ndjson"
        wait_until(file.exists, "the state file is there")
        ends_at, later = (int(time.time()) + seconds for seconds in ENDS_S)
        far.create(acl("payments", expires_at=rfc3339(later)))
        allow_until(ends_at, far, near, root)
        wait_until(lambda: b'"orders"' in file.read_bytes(), "both are kept")
        store.server.stop()
        root.stop(signal.SIGKILL)

        # The far one goes on by itself, while the one that it follows stands still.
        with Sampling(far) as sampling:
            wait_until(lambda: sampling.answers != [], "it answers")
            assert denied(frozen_answers(near, QUESTION, ends_at))
            wait_until(lambda: sampling.after(ends_at) > 0, "it answers after the end")
        assert [sent_at for sent_at, answers in sampling.answers if sent_at >= ends_at and answers != {"DENIED"}] == []
        assert {"ALLOWED"} in [answers for _, answers in sampling.answers]
        # Now the one that stood still is followed again, and its own follower stands still.
        assert near.authorize("User:alice", action("orders")) == ["DENIED"]
        assert denied(frozen_answers(far, question("payments"), later))
        far.stop(signal.SIGKILL)

        # From a state file nobody knows what time it is, also once an upstream that does not know it answers.
        far = stack.enter_context(follower_of(near.url, far_port, **kept)).ready()
        both = action("orders"), action("payments")
        assert far.authorize("User:alice", *both) == ["DENIED", "DENIED"]
        near.stop(signal.SIGKILL)
        assert far.authorize("User:alice", *both) == ["DENIED", "DENIED"]
        store.server.start()
        root = stack.enter_context(over_socket("--port", root_port, settings={"KLAMM_DATABASE_URL": store.dsn})).ready()
        near = stack.enter_context(follower_of(root.url, near_port)).ready()
        wait_until(lambda: far.acls(principal="User:alice") == [], "both are removed, and the followers hear of it")
        assert removals(store) == 2
