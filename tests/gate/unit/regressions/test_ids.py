"""No published fault without a test that names it, and no name that stands on no list."""

import functools
import re
from pathlib import Path

import pytest

from tests.gate.unit.regressions.ids import IDS, slug

TESTS = Path(__file__).parents[3]
_A_TEST = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
_AN_ID = re.compile(r"cve_\d{4}_\d+|ghsa_[0-9a-z]{4}|kafka_\d{4,}|pr_\d{4,}")


@functools.cache
def names() -> set[str]:
    """Of all tests. Parsing all files would take a second in each process that collects this one."""
    return {name for path in TESTS.rglob("test_*.py") for name in _A_TEST.findall(path.read_text(encoding="utf-8"))}


def test_every_fault_has_a_test_that_names_it(subtests: pytest.Subtests) -> None:
    for fault in IDS:
        with subtests.test(fault=fault):
            word = re.compile(rf"_{slug(fault)}(_|$)")
            assert any(word.search(name) for name in names())


def test_every_fault_that_a_test_names_is_on_the_list() -> None:
    named = {found for name in names() for found in _AN_ID.findall(name)}
    known = {slug(fault).removeprefix("openfga_") for fault in IDS}
    assert named <= known
    assert len(named) == len(IDS) == len(set(IDS))
