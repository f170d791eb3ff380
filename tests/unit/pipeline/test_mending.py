import csv
import io
import subprocess
from pathlib import Path
from typing import Any

from app.pipeline.kafka_acls import remove_command
from app.pipeline.mending import csv_lines, script_lines
from app.pipeline.schemas import BINDING_FIELDS, FINDINGS

NASTY = "a'b $(touch hacked) ; `touch hacked` 😀"
LINES = "a'b\n$(touch hacked)\n; `touch hacked` 😀"


def finding(name: str, kind: str = "REDUNDANT") -> dict[str, Any]:
    fields = dict(zip(BINDING_FIELDS, ("TOPIC", name, "LITERAL", "User:a", "*", "READ", "ALLOW"), strict=True))
    rest = {"kind": kind, "acl_id": "1", "why": f"as `{name}`", "by_acl_id": None, "covered": 3, "used": None}
    return {**fields, **rest, "mend": [remove_command(fields)]}


def test_the_script_hands_every_command_to_the_tool_once_and_runs_nothing_else(tmp_path: Path) -> None:
    tool = tmp_path / "kafka-acls"
    tool.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >> calls; printf "\\0" >> calls\n')
    tool.chmod(0o755)
    findings = [finding(NASTY), finding(NASTY, "VOID"), finding(LINES), finding("plain")]
    script = "\n".join(script_lines(findings, "x\ntouch hacked", 7))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "BOOTSTRAP": "b:9092", "COMMAND_CONFIG": "c.properties"}
    subprocess.run(["/bin/bash", "-c", script], cwd=tmp_path, env=environment, check=True)
    calls = [call.split("\0") for call in (tmp_path / "calls").read_text().removesuffix("\0\0").split("\0\0")]
    assert [call[call.index("--topic") + 1] for call in calls] == [NASTY, "plain"]
    assert calls[0][:4] == ["--command-config", "c.properties", "--bootstrap-server", "b:9092"]
    assert not (tmp_path / "hacked").exists()


def test_csv_holds_every_column_of_every_finding() -> None:
    text = "\n".join(csv_lines([finding(LINES)]))
    header, row = csv.reader(io.StringIO(text, newline=""))
    assert header == FINDINGS.fieldNames()
    named = dict(zip(header, row, strict=True))
    assert (named["resource_name"], named["covered"], named["used"]) == (LINES, "3", "")
