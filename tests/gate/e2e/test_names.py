"""Two principals that differ by a blank at their ends, one allowed and one denied, are told apart by each command."""

from pathlib import Path

import pytest

from app.client import log, why
from app.client.assertions import command as assertions
from app.client.plan import command as plan
from app.client.plan import offboard
from app.client.reach import what, who
from tests.client_runs import run
from tests.gate.e2e.test_commands import acls, klamm
from tests.klamm import Process, acl


@pytest.fixture
def shop(service: Process, name: str) -> str:
    """The one that is allowed; the other one has a blank behind it, and is denied."""
    principal = f"User:{name}"
    service.create(acl(name, principal, operation="WRITE"))
    service.create(acl(name, f"{principal} ", operation="WRITE", permission_type="DENY"))
    return principal


def check_both(text: str, principal: str) -> None:
    assert f'"{principal} "' in text
    others = text.replace(f'"{principal} "', "")
    assert principal in others
    assert f"{principal}  " not in others


def test_who_has_access(service: Process, name: str, shop: str) -> None:
    check_both(klamm(service, who, f"topic:{name}").text, shop)
    shown = klamm(service, who, f"topic:{name}", "--output", "markdown").text
    assert f"| `{shop}` |" in shown
    assert f'| `"{shop} "` |' in shown
    lines = klamm(service, who, f"topic:{name}", "--output", "csv").text.splitlines()
    assert {line.partition(",")[0] for line in lines} >= {shop, f"{shop} "}, "exactly, for programs"


def test_what_a_principal_has(service: Process, shop: str) -> None:
    shown = klamm(service, what, f"{shop} ").text
    assert f'What "{shop} " can do' in shown
    assert f"What {shop} can do" in klamm(service, what, shop).text
    assert "no ACL allows it anything" in shown


def test_why_it_is_denied(service: Process, name: str, shop: str) -> None:
    asked = ("WRITE", f"topic:{name}", "--host", "10.1.2.3")
    denied = klamm(service, why, f"{shop} ", *asked).text
    assert denied.startswith(f'DENIED "{shop} " WRITE topic:{name} from 10.1.2.3\n')
    assert f'DENY WRITE for "{shop} " from any host on topic:{name}' in denied
    assert klamm(service, why, shop, *asked).text.startswith(f"ALLOWED {shop} WRITE")
    nearly = klamm(service, why, f"{shop}  ", *asked).text
    assert nearly.startswith(f'DENIED "{shop}\\x20\\x20" WRITE')
    assert f"would match if the principal were `{shop}`" in nearly


def test_what_changed(service: Process, name: str, shop: str) -> None:
    check_both(klamm(service, log, "--topic", name).text, shop)


def test_plans(service: Process, name: str, shop: str, tmp_path: Path) -> None:
    file = tmp_path / "none.jsonl"
    file.write_text(
        f'{{"resource_type": "TOPIC", "resource_name": "{name}x", "pattern_type": "LITERAL", "principal": "User:x", '
        '"host": "*", "operation": "READ", "permission_type": "ALLOW"}\n'
    )
    pruned = ("--prune", "--prune-prefix", name)
    for form in ("text", "markdown"):
        check_both(klamm(service, plan, str(file), *pruned, "--output", form).text, shop)
    leaves = klamm(service, offboard, f"{shop} ").text
    assert f'- DENY "{shop} " WRITE on TOPIC {name}' in leaves


def test_what_klamm_acls_lists_reads_back(service: Process, name: str, shop: str) -> None:
    code, text = acls(service, "--list", "--topic", name)
    assert code == 0
    assert f"principal={shop} , host=*, operation=WRITE, permissionType=DENY" in text


def test_assertions_that_fail(name: str, tmp_path: Path) -> None:
    file, tests = tmp_path / "acls.jsonl", tmp_path / "access.yaml"
    one = '{{"resource_type": "TOPIC", "resource_name": "{}", "pattern_type": "LITERAL", "principal": "{}", '
    rest = '"host": "*", "operation": "WRITE", "permission_type": "ALLOW"}\n'
    file.write_text((one.format(name, "User:shop ") + rest).replace("{{", "{"))
    tests.write_text(f"- nobody may WRITE topic:{name}\n- User:shop may WRITE topic:{name}\n")
    found = run(assertions, [str(tests), "--acls", str(file)])
    assert found.code == 1
    assert f'"User:shop " may WRITE topic:{name} from' in found.text
    assert f"User:shop may not WRITE topic:{name} from" in found.text
    assert "no ACL mentions User:shop (" in " ".join(found.text.split())
