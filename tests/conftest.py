"""One embedded PostgreSQL for the whole run, started by the first test that asks for it; a database for each test."""

import gc
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from app.core.collection import collection_paused
from tests import left_out
from tests.planted import gather, judge
from tests.postgres import Postgres
from tests.process_guard import may_start_processes

# A background job and nohup ignore these signals, and whatever they start would: what tests start must heed them. A
# handler ends with exec, so this process goes on to ignore them and its children do not.
for _ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_ignored) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(_ignored, lambda *_: None)

# Neighbours take the cores when they like: no test fails for having been slow.
settings.register_profile("klamm", deadline=None)
# `make check` draws a quarter of what all other runs draw; tests/strategies.py has the share.
settings.register_profile("check", settings.get_profile("klamm"), max_examples=25)
# The gate draws the same each time.
settings.register_profile("gate", settings.get_profile("klamm"), derandomize=True, database=None)
settings.load_profile("klamm")

_SPARK, _CLUSTER = "tests/proof/pipeline/", "tests/proof/cluster/"
_LONGEST = (_CLUSTER, _SPARK, "tests/proof/e2e/test_pipeline_demo.py", "tests/proof/kafka/")
_LONG = (
    "tests/proof/e2e/",
    *(f"tests/gate/unit/{room}/" for room in ("client/http", "client/watch", "process", "upstream")),
    *(f"tests/gate/unit/{name}.py" for name in ("cli/test_server", "rest/test_key_sources", "test_tls_handshakes")),
)
"""What works, and what waits: so side by side no core is idle."""

_ONE_HALF = tuple(
    f"{_SPARK}test_{name}.py"
    for name in (
        "export",
        "hygiene",
        "log_coverage",
        "mending",
        "one_finding",
        "propose",
        "replay",
        "shadowed",
        "usage",
    )
)
"""About half of the work on Spark."""

_PAST = "tests/gate/integration/test_store_at.py::test_many_answers"
_ALONE = (f"{_SPARK}test_two_at_once.py", _PAST)
"""Each of these tests may have any worker: they take minutes, and use no session."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Each worker collects thousands of tests, and no garbage among them."""
    with collection_paused():
        collected = yield
    # What was collected stays for the whole run: no later collection need walk over it.
    gc.freeze()
    return collected


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, lest workers that share the suite out end with them; the rest as it was shuffled."""
    left_out.mark_full(items)
    places = (*_LONGEST, (*_LONG, _PAST))
    items.sort(key=lambda item: [item.nodeid.startswith(place) for place in places], reverse=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:  # noqa: ANN401 - xdist has no types
    """The tests on a Spark session go to two workers, which have one each, a cluster's to one; the others by files."""
    if config.getoption("dist") != "loadfile":
        return None
    scheduler = LoadFileScheduling(config, log)
    file_of = scheduler._split_scope

    def scope_of(nodeid: str) -> str:
        if nodeid.startswith(_CLUSTER):
            return "cluster"
        if nodeid.startswith(_ALONE):
            return nodeid
        if not nodeid.startswith(_SPARK):
            return str(file_of(nodeid))
        return "one half on Spark" if nodeid.startswith(_ONE_HALF) else "the other half on Spark"

    scheduler._split_scope = scope_of
    return scheduler


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    left_out.skip_if_late(item)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    left_out.count_left_out(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """No process of the run may have said a planted secret."""
    judge(session)
    left_out.hand_over(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 - a worker of pytest-xdist
    """What a worker's processes have said is judged with all the rest."""
    gather(node)
    left_out.take_over(node)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out.say(terminalreporter)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """The run's server; `.new_store()` is a database of one's own."""
    with may_start_processes():
        server = Postgres(tmp_path_factory.mktemp("postgres") / "data")
        server.start()
    try:
        yield server
    finally:
        with may_start_processes():
            server.stop()


@pytest.fixture
def database_url(postgres: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    """The DSN of an empty database, which is dropped after the test with whatever is still connected to it."""
    dsn = postgres.new_store() if "migrated_database_url" in request.fixturenames else postgres.empty()
    yield dsn
    postgres.drop(dsn)


@pytest.fixture
def migrated_database_url(database_url: str) -> str:
    """The same database as a newborn store: all tables, no ACLs, an epoch of its own."""
    return database_url
