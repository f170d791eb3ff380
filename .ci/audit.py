"""Ask for known advisories about all that is fetched or shipped: `python .ci/audit.py LOCK`.

Python packages of the lock are asked about by pip-audit; jars (the JDBC driver, the plugin's) and scripts (those of the
console, and tools that npx runs) by OSV; images in deploy/ by trivy, which must be installed.
Ends with 0 if no advisory is known for any entry, 1 if some are, 3 if some could not be checked.
pip-audit alone can't tell the first from the last: what its service does not know it passes over, and it ends with 0.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

CLEAN, ADVISORIES, NOT_CHECKED = 0, 1, 3
# A version with advisories since 2018: a service that knows none of them has looked at nothing.
KNOWN_BAD = "requests==2.19.0"
PROBE_TIMEOUT_S, AUDIT_TIMEOUT_S = 60, 900
ROOT = Path(__file__).parents[1]
OSV = os.environ.get("OSV_URL", "https://api.osv.dev")
# The same for OSV, an ecosystem each.
KNOWN_BAD_PARTS = [("Maven", "org.apache.logging.log4j:log4j-core", "2.14.1"), ("npm", "lodash", "4.17.11")]


class Vulnerability(TypedDict):
    """One advisory, as pip-audit writes it in JSON."""

    id: str
    fix_versions: list[str]


class Dependency(TypedDict, total=False):
    """One entry of the lock: advisories if the service knew it, else the reason why it was passed over."""

    name: str
    version: str
    vulns: list[Vulnerability]
    skip_reason: str


class NotChecked(Exception):
    """No answer came that could be believed."""


def ask(requirements: Path, timeout_s: float) -> list[Dependency]:
    """What pip-audit says of each entry. Raises NotChecked where it says nothing."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(requirements), "--no-deps", "--disable-pip"]
    command += ["--format", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
        dependencies: list[Dependency] = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        raise NotChecked(f"the advisory service did not answer within {timeout_s} s") from None
    except (ValueError, KeyError, TypeError):
        raise NotChecked("no advisory service can be reached") from None
    return dependencies


def probe() -> None:
    """Raise NotChecked unless the service knows what is known to be bad."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "known-bad.txt"
        requirements.write_text(KNOWN_BAD + "\n")
        if not any(dependency.get("vulns") for dependency in ask(requirements, PROBE_TIMEOUT_S)):
            raise NotChecked(f"no advisory service that knows {KNOWN_BAD} (a known-bad probe) can be reached")


def say_not_checked(reason: str) -> None:
    """One line that nobody takes for a clean result."""
    print(f"audit: NOT CHECKED, which is not 'clean': {reason}", file=sys.stderr)


def audit(lock: Path) -> int:
    """Print what is known of the lock's entries, and return the exit status."""
    probe()
    dependencies = ask(lock, AUDIT_TIMEOUT_S)
    bad = [dependency for dependency in dependencies if dependency.get("vulns")]
    for dependency in bad:
        for found in dependency["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            print(f"audit: {dependency['name']} {dependency['version']}: {found['id']}, mended in {fixed}")
    unknown = sorted(dependency["name"] for dependency in dependencies if "vulns" not in dependency)
    if unknown or not dependencies:
        say_not_checked(f"the advisory service does not know {', '.join(unknown) or 'any entry'}")
    if bad or unknown or not dependencies:
        return ADVISORIES if bad else NOT_CHECKED
    today = time.strftime("%Y-%m-%d", time.gmtime())
    print(f"audit: clean: no advisory is known on {today} for any of {len(dependencies)} packages")
    return CLEAN


def jars() -> Iterator[tuple[str, str, str]]:
    """Ecosystem, name and version of the JDBC driver, and of what the plugin is compiled and tested with."""
    driver = re.search(
        r'^COORDINATES = "(\S+):(\S+)"', (ROOT / "app/pipeline/spark/jdbc_driver.py").read_text(), re.MULTILINE
    )
    if driver is None:
        raise NotChecked("app/pipeline/spark/jdbc_driver.py does not name the driver")
    yield "Maven", driver[1], driver[2]
    pom = (ROOT / "plugin/pom.xml").read_text()
    for group, artifact, version in re.findall(
        r"<dependency>\s*<groupId>(.*?)</groupId>\s*<artifactId>(.*?)</artifactId>\s*<version>(.*?)</version>", pom
    ):
        named = re.fullmatch(r"\$\{(.*)\}", version)
        value = re.search(rf"<{re.escape(named[1])}>(.*?)<", pom) if named else None
        yield "Maven", f"{group}:{artifact}", value[1] if value else version


def scripts() -> Iterator[tuple[str, str, str]]:
    """The same of the scripts that the console carries, and of the tools that npx runs."""
    for name, script in json.loads((ROOT / "app/console/static/vendored.json").read_text()).items():
        yield "npm", name, script["version"]
    for name, version in re.findall(r"npx --yes (\S+)@([\d.]+)", (ROOT / "Makefile").read_text()):
        yield "npm", name, version


def images() -> list[str]:
    """The images of others that deploy/ names."""
    files = [*(ROOT / "deploy").rglob("*.yaml"), *(ROOT / "deploy").rglob("Containerfile")]
    named = re.compile(r"^\s*(?:image:|FROM) ([a-z][^\s{}$]*:\S+)", re.MULTILINE)
    found = {name for path in files for name in named.findall(path.read_text())}
    return sorted(name for name in found if not name.startswith(("klamm", "registry.example.com/")))


def audit_parts(parts: list[tuple[str, str, str]]) -> list[str]:
    """What OSV knows of these jars and scripts, a line for each advisory. Raises NotChecked."""
    asked = [*KNOWN_BAD_PARTS, *parts]
    queries = [{"package": {"ecosystem": kind, "name": name}, "version": version} for kind, name, version in asked]
    request = urllib.request.Request(  # noqa: S310 - the same
        f"{OSV}/v1/querybatch", json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=PROBE_TIMEOUT_S) as answer:  # noqa: S310 - OSV, or a test of it
            results = json.load(answer)["results"]
        known = [[found["id"] for found in result.get("vulns", ())] for result in results]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise NotChecked("jars and scripts: OSV can't be reached") from None
    if len(known) != len(asked) or not all(known[: len(KNOWN_BAD_PARTS)]):
        raise NotChecked("jars and scripts: no OSV that knows what is known to be bad can be reached")
    found = zip(parts, known[len(KNOWN_BAD_PARTS) :], strict=True)
    return [f"{name} {version}: {', '.join(ids)}" for (_, name, version), ids in found if ids]


def audit_image(image: str) -> list[str]:
    """What trivy knows of this image that is grave and has been mended. Raises NotChecked."""
    trivy = shutil.which("trivy")
    if trivy is None:
        raise NotChecked("images: trivy is not installed")
    command = [trivy, "image", "--quiet", "--format", "json", "--severity", "HIGH,CRITICAL", "--ignore-unfixed", image]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=AUDIT_TIMEOUT_S)
        results = json.loads(done.stdout)["Results"]
        found = {each["VulnerabilityID"] for result in results for each in result.get("Vulnerabilities", ())}
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        raise NotChecked(f"image {image}: trivy could not look at it") from None
    return [f"{image}: {', '.join(sorted(found))}"] if found else []


def audit_others() -> int:
    """The same as `audit` for jars, scripts and images."""
    parts, places = [*jars(), *scripts()], images()
    bad, reasons = [], []
    for look in (lambda: audit_parts(parts), *(lambda image=image: audit_image(image) for image in places)):
        try:
            bad += look()
        except NotChecked as reason:
            reasons.append(str(reason))
    for line in bad:
        print(f"audit: {line}")
    for reason in dict.fromkeys(reasons):
        say_not_checked(reason)
    if not bad and not reasons:
        print(f"audit: clean: no advisory is known for any of {len(parts)} jars and scripts and {len(places)} images")
    return ADVISORIES if bad else NOT_CHECKED if reasons else CLEAN


def main() -> int:
    """Audit the lock that the command line names, and all else."""
    lock = Path(sys.argv[1])
    try:
        packages = audit(lock)
    except NotChecked as reason:
        say_not_checked(str(reason))
        packages = NOT_CHECKED
    both = {packages, audit_others()}
    return next(status for status in (ADVISORIES, NOT_CHECKED, CLEAN) if status in both)


if __name__ == "__main__":
    sys.exit(main())
