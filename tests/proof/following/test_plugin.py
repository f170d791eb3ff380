"""The plugin's unit tests (plugin/src/test, by JUnit): the one table of cases among them."""

from pathlib import Path

import pytest

from tests.proof.kafka.authorizer import run_maven
from tests.proof.kafka.jars import NotToBeHadError, find_java


def test_the_plugin_passes_its_unit_tests(tmp_path: Path) -> None:
    try:
        find_java()
        done = run_maven(tmp_path, "test")
    except NotToBeHadError as why:
        pytest.skip(str(why))
    if "Could not resolve dependencies" in done.stdout or "Could not transfer artifact" in done.stdout:
        pytest.skip("needs jars that Maven fetches once, with a network")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "surefire-reports" / "TEST-klamm.kafka.FollowingTest.xml").is_file()
