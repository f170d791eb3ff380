"""A way in that forgets the check of the caller does not type-check: this is what shows it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

WAY_IN = """
from app.core.context import RequestContext, RoleGrant
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from app.rest.callers.roles import Caller, speak
from app.rest.bodies.fields import AuthorizableRequestContext
from app.runtime.authorizer import Authorizer

async def way_in(authorizer: Authorizer, caller: Caller, body: AuthorizableRequestContext) -> None:
    {line}
"""

FORGOTTEN = (
    "authorizer.rights.authorization(body)",
    "authorizer.rights.authorization(None)",
    "authorizer.rights.authorization(body.principal)",
    "await authorizer.updates.create_acls(body, [], None)",
    "await authorizer.updates.delete_acls(body, [], None)",
    "await authorizer.updates.alter_configs(body, [], None)",
    "await authorizer.acls(body, AclBindingFilter(), 1, None)",
    "authorizer.acl_count(None)",
    "authorizer.acl_count()",
    "authorizer.describe_configs(None)",
    "RequestContext(body.principal, parse_address(body.client_address))",
    "RoleGrant()",
)
CHECKED = "authorizer.rights.authorization(speak(caller, body, None))"


@pytest.mark.timeout(600)
def test_a_way_in_that_forgets_the_check_of_the_caller_does_not_type_check(tmp_path: Path) -> None:
    files = {}
    for at, line in enumerate((CHECKED, *FORGOTTEN)):
        files[f"way_{at}.py"] = line
        (tmp_path / f"way_{at}.py").write_text(WAY_IN.format(line=line))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    found = subprocess.run(
        [*command, *(str(tmp_path / name) for name in files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    faulty = {Path(line.partition(":")[0]).name for line in found.stdout.splitlines() if ": error:" in line}
    assert found.returncode == 1, found.stderr
    assert faulty == {name for name, line in files.items() if line != CHECKED}, found.stdout
