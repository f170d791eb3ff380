"""Kafka's own tests, unchanged, of its published jars: under its own authorizer, or under Klamm's in its place."""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.klamm import Process
from tests.proof.kafka.authorizer import Authorizer
from tests.proof.kafka.broker import LOGGING
from tests.proof.kafka.jars import Kafka

POM = Path(__file__).with_name("pom.xml")
CLASSES = (
    "kafka.security.authorizer.AuthorizerTest",
    "org.apache.kafka.clients.admin.DescribeAuthorizedOperationsTest",
    "org.apache.kafka.clients.security.GroupAuthorizerIntegrationTest",
    "kafka.api.PlaintextEndToEndAuthorizationTest",
    "kafka.api.AuthorizerIntegrationTest",
)
PRIVATE: Mapping[str, str] = {
    f"kafka.security.authorizer.AuthorizerTest.{name}()": "makes an ACL on the cluster resource `*`, which Kafka's own "
    "API refuses (`kafka-cluster` is its only name), and which Klamm's store refuses as well"
    for name in ("testAclManagementAPIs", "testAuthorizeByResourceTypeSuperUserHasAccess")
}
"""Tests that ask for more than an Authorizer promises, each with the reason."""

_SHIM = Path(__file__).with_name("StandardAuthorizer.java")
_FLAGS = (
    "-Xmx1536m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djunit.jupiter.extensions.autodetection.enabled=true",
    LOGGING,
)
_RANDOM = re.compile(r"[\w.$]+@[0-9a-f]+")


class BrokenRunError(Exception):
    """The tests did not run at all; what the launcher said."""


@dataclass(frozen=True)
class Outcome:
    """How each test ended, by class, method and parameters."""

    passed: frozenset[str]
    failed: Mapping[str, str]
    """With the error."""


@dataclass(frozen=True)
class Suite:
    """The tests, and the authorizer that they run under."""

    kafka: Kafka
    """With the shim in front, if it is Klamm's."""

    url: str

    def run(self, folder: Path, timeout_s: float, classes: Sequence[str], methods: str = "") -> Outcome:
        """Run classes, or those of their methods whose full names match. Raises BrokenRunError."""
        selected = [f"--select-class={name}" for name in classes]
        if methods:
            selected.append(f"--include-methodname={methods}")
        flags = (*_FLAGS, f"-Djava.io.tmpdir={folder}", f"-Dklamm.test.url={self.url}")
        quiet = ("--details=none", "--disable-banner", "--disable-ansi-colors", f"--reports-dir={folder}")
        main = "org.junit.platform.console.ConsoleLauncher"
        done = subprocess.run(
            self.kafka.command(main, "execute", *selected, *quiet, flags=flags),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
        report = folder / "TEST-junit-jupiter.xml"
        if not report.is_file():
            raise BrokenRunError(done.stdout[-4_000:])
        return _read(report)


def _read(report: Path) -> Outcome:
    passed, failed = set(), {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - JUnit's own report
        name = _RANDOM.sub("", f"{case.get('classname')}.{case.get('name')}")
        error = next((each for each in case if each.tag in {"failure", "error"}), None)
        if error is not None:
            failed[name] = f"{error.get('type')}: {error.get('message')}"
        elif case.find("skipped") is None:
            passed.add(name)
    return Outcome(frozenset(passed), failed)


def under_klamm(authorizer: Authorizer, own: Kafka, service: Process, folder: Path) -> Suite:
    """The suite with the plugin under StandardAuthorizer's name."""
    classes = folder / "shim"
    classpath = f"{authorizer.jar}:{own.classpath}"
    javac = shutil.which("javac", path=str(own.java.resolve().parent))
    assert javac is not None
    subprocess.run([javac, "-d", str(classes), "-cp", classpath, str(_SHIM)], check=True, timeout=300)
    return Suite(Kafka(own.java, f"{classes}:{classpath}"), service.url)
