"""`make test-kafka-own`: every test under Kafka's own authorizer and under Klamm's, and where they differ."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.klamm import over_socket
from tests.proof.kafka.authorizer import build
from tests.proof.kafka.jars import find_kafka
from tests.proof.kafka.own.suite import CLASSES, POM, PRIVATE, Suite, under_klamm

_TIMEOUT_S = 7_200


def _compared(name: str, theirs: Suite, ours: Suite, folder: Path) -> list[str]:
    """The tests of a class that only Kafka's own authorizer passes."""
    outcomes = []
    for which, suite in (("kafka", theirs), ("klamm", ours)):
        (reports := folder / which / name).mkdir(parents=True)
        outcomes.append(suite.run(reports, _TIMEOUT_S, [name]))
    kafkas, klamms = outcomes
    print(f"{name}: {len(kafkas.passed)} pass under Kafka's own, {len(klamms.passed)} under Klamm's", flush=True)
    for test in sorted(kafkas.failed):
        print(f"  fails under Kafka's own, too: {test}")
    only = sorted(kafkas.passed - klamms.passed)
    for test in only:
        print(f"  {test}: {PRIVATE.get(test) or klamms.failed.get(test, 'did not run')}")
    return [test for test in only if test not in PRIVATE]


def main() -> int:
    """0 if every test that passes under Kafka's own authorizer passes under Klamm's, but the listed ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("classes", nargs="*", help="full names; all if there are none")
    chosen = parser.parse_args().classes or CLASSES
    own = find_kafka(POM)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        authorizer = build(find_kafka(), folder / "plugin")
        with over_socket("--data-dir", str(folder / "klamm")).ready() as service:
            ours = under_klamm(authorizer, own, service, folder)
            lost = [test for name in chosen for test in _compared(name, Suite(own, ""), ours, folder)]
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
