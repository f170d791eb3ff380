"""Least privilege from end to end: a service's own log, a proposal, `klamm plan` and `apply`, and the same answers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.klamm import SUPER_USER, acl, action, over_socket, wait_until
from tests.surroundings import without_ours

KLAMM = str(Path(sys.executable).with_name("klamm"))
LOCAL = ["--master", "local[2]", "--driver-memory", "1g"]
ME = "User:orders-api"

pytestmark = [
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(
        shutil.which("java") is None and not os.environ.get("JAVA_HOME"),
        reason="no Java: install a JDK 17, 21 or 25, or klamm[spark-jvm]",
    ),
]

USED = [
    *(action(f"orders-{region}", "WRITE") for region in ("eu", "us", "ap")),
    *(action(f"orders-{region}", "DESCRIBE") for region in ("eu", "us", "ap")),
    *(action(f"pay.{number}") for number in range(3)),
    action("audit"),
    action("orders-tx", "WRITE", "TRANSACTIONAL_ID"),
    action("orders-readers", "READ", "GROUP"),
    action("kafka-cluster", "IDEMPOTENT_WRITE", "CLUSTER"),
]
DENIED = [action("pay.secret"), action("hidden"), action("orders-eu", "DELETE", "GROUP")]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [KLAMM, *words], cwd=folder, env=without_ours(), capture_output=True, text=True, timeout=600, check=False
    )


def test_what_was_used_stays_allowed_and_nothing_else_does(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    environment = {"KLAMM_DECISION_LOG_PATH": str(log), "KLAMM_DECISION_LOG_ROTATE_MS": "1000"}
    with over_socket("--data-dir", str(tmp_path / "data"), settings=environment) as service:
        wide = [
            acl("*", ME, "ALL"),
            acl("*", ME, "ALL", resource_type="TRANSACTIONAL_ID"),
            acl("orders", ME, "READ", resource_type="GROUP", pattern_type="PREFIXED"),
            acl("kafka-cluster", ME, "ALL", resource_type="CLUSTER"),
        ]
        denies = [
            acl("pay.secret", ME, "ALL", permission_type="DENY"),
            acl("hidden", "User:*", "ALL", permission_type="DENY"),
        ]
        service.ready().create(*wide, *denies)
        assert service.authorize(ME, *USED) == ["ALLOWED"] * len(USED)
        assert service.authorize(ME, *DENIED) == ["DENIED"] * len(DENIED)
        wait_until(lambda: bool(list(log.glob("decisions-*.jsonl"))), "a closed file of the log")
        for words in (
            ["export", "--data-dir", "data"],
            ["snapshot"],
            ["ingest", "--decisions", "log"],
            ["propose", "--principal", ME, "--output", "wanted.json"],
        ):
            ended = run(tmp_path, "pipeline", *words, *LOCAL)
            assert ended.returncode == 0, ended.stderr
        flags = ["wanted.json", "--klamm", service.url, "--as", SUPER_USER, "--prune", "--prune-principal", ME]
        planned = run(tmp_path, "plan", *flags, "--max-delete-percent", "100")
        assert planned.returncode == 0, planned.stderr
        assert f"  - ALLOW {ME} ALL on TOPIC of any name" in planned.stdout
        applied = run(tmp_path, "apply", *flags, "--max-delete-percent", "100", "--yes")
        assert applied.returncode == 0, applied.stderr
        assert service.authorize(ME, *USED) == ["ALLOWED"] * len(USED)
        assert service.authorize(ME, *DENIED) == ["DENIED"] * len(DENIED)
        others = [action("never-asked"), action("audit", "WRITE"), action("orders-other", "READ", "GROUP")]
        assert service.authorize(ME, *others) == ["DENIED"] * len(others)
        there = {(each["resource_name"], each["pattern_type"], each["permission_type"]) for each in service.acls()}
        # The names of `orders-` are all used, and so a prefix; `pay.secret` exists and was not.
        assert there == {
            ("orders-", "PREFIXED", "ALLOW"),
            *(("pay." + str(number), "LITERAL", "ALLOW") for number in range(3)),
            *((name, "LITERAL", "ALLOW") for name in ("audit", "orders-tx", "orders-readers", "kafka-cluster")),
            ("pay.secret", "LITERAL", "DENY"),
            ("hidden", "LITERAL", "DENY"),
        }
