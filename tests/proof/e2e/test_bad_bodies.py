"""What a body that is too much may cost a real service; tests/gate/e2e/test_bad_bodies.py asks all else."""

import json
import re
from collections.abc import Callable

import pytest

from tests.bodies import BODIES, pointers, refusal
from tests.klamm import Process
from tests.raw import forget_peak, peak_bytes

MIB = 1024 * 1024

each_limit = pytest.mark.parametrize("path", ["/v1/authorize", "/v1/acls"])


WIDE: dict[str, Callable[[str], str]] = {
    "half a million wrong entries": lambda text: _with_entries(text, "0", 450_000),
    "90,000 entries of an unknown field": lambda text: _with_entries(text, '{"x":0}', 90_000),
    "100,000 unknown fields": lambda text: text[:-1] + "".join(f',"{n}":0' for n in range(80_000)) + "}",
    "a late NUL": lambda text: f'{text[:-1]},"n":[{"0," * 450_000}"\\u0000"]}}',
}


@each_limit
@pytest.mark.parametrize("what", WIDE)
def test_a_body_of_very_many_faults_costs_little(patient: Process, path: str, what: str) -> None:
    """Each error found costs a kilobyte and a moment: nobody's answer waits for half a million of them."""
    content = WIDE[what](json.dumps(BODIES[path])).encode()
    forget_peak(patient)
    before = peak_bytes(patient)
    problem = refusal(patient.send(path, content), 400, "INVALID_REQUEST")
    assert len(pointers(problem)) <= 20
    assert peak_bytes(patient) < before + 150 * MIB


def _with_entries(text: str, entry: str, count: int) -> str:
    """The body with this as the entries of all of its lists, or else of one more."""
    many = f"[{','.join([entry] * count)}]"
    lists = re.sub(r"\[.*?\]", lambda _: many, text)
    return lists if lists != text else f'{text[:-1]},"n":{many}}}'
