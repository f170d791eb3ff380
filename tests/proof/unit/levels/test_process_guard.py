"""In the gate a test that starts a process fails, however it does it; the fixtures that may do not."""

import pytest

pytest_plugins = ["pytester"]

_CONFTEST = """
import subprocess, sys
import pytest
from tests.process_guard import (
    may_start_processes, pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown
)

def start():
    subprocess.run([sys.executable, "-c", ""], check=True)

@pytest.fixture(scope="session")
def service():
    with may_start_processes():
        start()
    yield
    with may_start_processes():
        start()

@pytest.fixture
def other():
    start()

@pytest.fixture
def late():
    yield
    start()
"""


def _run(pytester: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    gate = pytester.mkdir("gate")
    (gate / "conftest.py").write_text(_CONFTEST)
    (gate / "test_it.py").write_text(body)
    plugins = ("asyncio", "randomly", "cacheprovider", "xdist", "schemathesis")
    silenced = [word for name in plugins for word in ("-p", f"no:{name}")]
    return pytester.runpytest_inprocess(*silenced, *options)


@pytest.mark.parametrize(
    "start",
    [
        "subprocess.run(['true'])",
        "subprocess.Popen('true', shell=True)",
        "os.system('true')",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.fork() or os._exit(0)",
        "os.forkpty()[0] or os._exit(0)",
        "os.spawnv(os.P_WAIT, '/bin/true', ['true'])",
        "os.execv('/bin/true', ['true'])",
        "asyncio.run(asyncio.create_subprocess_exec('true'))",
        "multiprocessing.get_context('fork').Process(target=print).start()",
    ],
)
def test_every_way_to_start_a_process_is_refused(pytester: pytest.Pytester, start: str) -> None:
    body = f"import asyncio, multiprocessing, os, subprocess\ndef test_starts(): {start}\ndef test_next(): pass\n"
    result = _run(pytester, body)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*test_it.py::test_starts starts a process (*move the test to tests/proof*"])


def test_a_refusal_that_the_code_under_test_hides_fails_the_test(pytester: pytest.Pytester) -> None:
    body = """
import subprocess
def test_hides():
    try:
        subprocess.run(["true"])
    except AssertionError:
        pass
"""
    _run(pytester, body).assert_outcomes(failed=1)


def test_a_thread_of_a_test_is_seen(pytester: pytest.Pytester) -> None:
    body = """
import subprocess, threading
def start():
    try:
        subprocess.run(["true"])
    except AssertionError:
        pass
def test_thread():
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
"""
    _run(pytester, body).assert_outcomes(failed=1)


def test_fixtures_that_may_start_and_stop_processes(pytester: pytest.Pytester) -> None:
    _run(pytester, "def test_uses(service): pass\n").assert_outcomes(passed=1)


def test_a_permit_ends_with_the_fixture_that_had_it(pytester: pytest.Pytester) -> None:
    body = "import subprocess\ndef test_uses(service): subprocess.run(['true'])\n"
    _run(pytester, body).assert_outcomes(failed=1)


@pytest.mark.parametrize("fixture", ["other", "late"])
def test_other_fixtures_may_not(pytester: pytest.Pytester, fixture: str) -> None:
    result = _run(pytester, f"def test_uses({fixture}): pass\n")
    result.assert_outcomes(errors=1, passed=1 if fixture == "late" else 0)


def test_tests_of_other_folders_may(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_proof="import subprocess\ndef test_starts(): subprocess.run(['true'])\n")
    _run(pytester, "def test_nothing(): pass\n").assert_outcomes(passed=2)


def test_what_is_told_names_the_program_without_its_arguments(pytester: pytest.Pytester) -> None:
    body = "import subprocess\ndef test_starts(): subprocess.run(['/bin/true', 'planted-argument'])\n"
    result = _run(pytester, body, "--tb=line")
    result.stdout.fnmatch_lines(["*(subprocess.Popen of true)*"])
    assert "planted-argument" not in result.stdout.str()
