"""Ask pip-audit about a lock file: `python .ci/audit.py LOCK`.

Ends with 0 if no advisory is known for any entry, 1 if some are, 3 if it could not be checked.
pip-audit alone can't tell the first from the last: what its service does not know it passes over, and it ends with 0.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TypedDict

CLEAN, ADVISORIES, NOT_CHECKED = 0, 1, 3
# A version with advisories since 2018: a service that knows none of them has looked at nothing.
KNOWN_BAD = "requests==2.19.0"
PROBE_TIMEOUT_S, AUDIT_TIMEOUT_S = 60, 900


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


def main() -> int:
    """Audit the lock that the command line names."""
    lock = Path(sys.argv[1])
    try:
        return audit(lock)
    except NotChecked as reason:
        say_not_checked(str(reason))
        return NOT_CHECKED


if __name__ == "__main__":
    sys.exit(main())
