"""One embedded PostgreSQL for the whole run, started by the first test that asks for it; a database for each test."""

import gc
import random
import signal
import threading
from collections.abc import Generator, Iterator

import pytest

from app.core.collection import collection_paused
from tests import budgets
from tests.planted import judge
from tests.postgres import Postgres
from tests.process_guard import may_start_processes

# A background job and nohup ignore these signals, and whatever they start would: what tests start must heed them. A
# handler ends with exec, so this process goes on to ignore them and its children do not.
for _ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_ignored) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(_ignored, lambda *_: None)

budgets.register_profiles()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Each worker collects thousands of tests, and no garbage among them."""
    with collection_paused():
        collected = yield
    # What was collected stays for the whole run: no later collection need walk over it.
    gc.freeze()
    return collected


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test draws the same each time; where pytest-randomly is at work, as in `make proof`, it has the seed."""
    if not item.config.pluginmanager.has_plugin("randomly"):
        random.seed(item.nodeid)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """No process may have said a planted secret; after the last test, which ends all processes, none at any time."""
    yield
    judge(everything=nextitem is None)


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
