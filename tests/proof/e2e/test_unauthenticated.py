"""Hundreds of clients without credentials on kept connections, and what becomes of a known caller's decisions."""

import json
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bench.clients import Clients, asking
from tests.bench.load import connect, post, status_from, status_of
from tests.callers import Corp, write_configuration
from tests.klamm import LIMIT_S, Process, action, context, over_socket
from tests.postgres import Postgres

UNKNOWN = 1_200
EACH = 60
"""After so many of them in a row comes a request of the known caller."""
ROUNDS = 3
FREE_RUNNING = 300
ASKED = 500
WRONG = "klamm_" + "w" * 43


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, str]]:
    """A folder with klamm.toml, and the tokens of its callers."""
    folder = tmp_path_factory.mktemp("callers")
    return folder, write_configuration(folder, Corp())


@pytest.fixture(scope="module")
def guarded(postgres: Postgres, tokens: tuple[Path, Mapping[str, str]]) -> Iterator[Process]:
    """A service that knows callers."""
    folder, _ = tokens
    with over_socket(settings={"KLAMM_DATABASE_URL": postgres.new_store()}, folder=folder) as service:
        yield service.ready()


def decision(token: str) -> bytes:
    body = {"context": context("User:alice"), "actions": [action("orders")]}
    return post("/v1/authorize", json.dumps(body).encode(), token)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: e2e\r\n\r\n".encode()


UNKNOWN_ASK = (decision(WRONG), get("/nothing"), get("/livez"))


def port_of(service: Process) -> int:
    return int(service.url.rpartition(":")[2])


def test_a_known_caller_is_answered_among_those_who_piled_up(
    guarded: Process, tokens: tuple[Path, Mapping[str, str]]
) -> None:
    """While the process stands still, more comes than it may read in a turn; the known caller's is in between."""
    port, known = port_of(guarded), decision(tokens[1]["anyone"])
    statuses: Mapping[bool, Counter[int]] = {True: Counter(), False: Counter()}
    with ExitStack() as stack:
        made = [(stack.enter_context(connect(port)), at % (EACH + 1) == EACH) for at in range(UNKNOWN)]
        for round_ in range(ROUNDS + 1):
            guarded.process.send_signal(signal.SIGSTOP)
            try:
                for at, (connection, is_known) in enumerate(made):
                    connection.sendall(known if is_known else UNKNOWN_ASK[at % len(UNKNOWN_ASK)])
            finally:
                guarded.process.send_signal(signal.SIGCONT)
            for connection, is_known in made:
                # In the first round the known caller's connections are not known yet.
                statuses[is_known][status_from(connection)] += round_ > 0
    assert +statuses[True] == {200: ROUNDS * sum(is_known for _, is_known in made)}
    assert set(+statuses[False]) == {200, 401, 404}, "whoever waits is answered in the end"


def test_a_known_caller_is_answered_beside_those_who_never_stop(
    guarded: Process, tokens: tuple[Path, Mapping[str, str]]
) -> None:
    port, known = port_of(guarded), decision(tokens[1]["anyone"])
    asked, fresh, probes = Counter[int](), Counter[int](), Counter[int | None]()
    with asking(Clients(port, UNKNOWN_ASK, FREE_RUNNING)) as answered, connect(port) as connection:
        for at in range(ASKED):
            connection.sendall(known)
            asked[status_from(connection)] += 1
            if at % 20 == 0:
                probes[status_of(port, "/livez")] += 1
                with connect(port) as another:
                    another.sendall(known)
                    fresh[status_from(another)] += 1
    assert asked[200] >= 0.99 * ASKED, asked
    assert fresh[200] >= 0.99 * fresh.total(), fresh
    assert probes == {200: probes.total()}
    statuses = answered[0].statuses
    assert set(statuses) == {200, 401, 404}, statuses
    assert answered[0].longest_s < LIMIT_S
