import csv
import io
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.core.kafka.bindings import AclBinding
from app.formats.csv_cells import marked, unmarked

MANIFEST = {"cluster_id": "x\ntouch hacked", "offset": 7}
NASTY = "a'b $(touch hacked) ; `touch hacked` 😀"
LINES = "a'b\n$(touch hacked)\n; `touch hacked` 😀"


def finding(name: str, kind: str = "REDUNDANT", tool: str = "kafka-acls") -> dict[str, Any]:
    from app.pipeline.history.schemas import BINDING_FIELDS
    from app.pipeline.hygiene.mending import Removal, remove_command

    fields = dict(zip(BINDING_FIELDS, ("TOPIC", name, "LITERAL", "User:a", "*", "READ", "ALLOW"), strict=True))
    rest = {"kind": kind, "acl_id": "1", "why": f"as `{name}`", "by_acl_id": None, "covered": 3, "used": None}
    return {**fields, **rest, "mend": [remove_command(Removal(kind, AclBinding.from_words(fields.values())), tool)]}


def test_the_script_hands_every_command_to_the_tool_once_and_runs_nothing_else(tmp_path: Path) -> None:
    from app.pipeline.hygiene.mending import script_lines

    tool = tmp_path / "kafka-acls"
    tool.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >> calls; printf "\\0" >> calls\n')
    tool.chmod(0o755)
    findings = [finding(NASTY), finding(NASTY, "VOID"), finding(LINES), finding("plain")]
    script = "\n".join(script_lines(findings, {**MANIFEST, "tool": "kafka-acls"}))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "BOOTSTRAP": "b:9092", "COMMAND_CONFIG": "c.properties"}
    subprocess.run(["/bin/bash", "-c", script], cwd=tmp_path, env=environment, check=True)
    calls = [call.split("\0") for call in (tmp_path / "calls").read_text().removesuffix("\0\0").split("\0\0")]
    assert [call[call.index("--topic") + 1] for call in calls] == [NASTY, "plain"]
    assert calls[0][:4] == ["--command-config", "c.properties", "--bootstrap-server", "b:9092"]
    assert not (tmp_path / "hacked").exists()


def test_by_default_the_script_speaks_to_klamm(tmp_path: Path) -> None:
    from app.pipeline.hygiene.mending import KLAMM, script_lines

    tool = tmp_path / "klamm"
    tool.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >> calls; printf "\\0" >> calls\n')
    tool.chmod(0o755)
    script = "\n".join(script_lines([finding(NASTY, tool=KLAMM)], {**MANIFEST, "tool": KLAMM}))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "KLAMM": "http://k:1", "AS": "User:a b", "COMMAND_CONFIG": "c"}
    for each in ("KLAMM", None):
        given = {name: value for name, value in environment.items() if name != each}
        run = subprocess.run(["/bin/bash", "-c", script], cwd=tmp_path, env=given, check=False, capture_output=True)
        # Without a URL nothing is done: it might be done to whatever runs on this machine.
        assert (run.returncode != 0) is (each == "KLAMM")
    (call,) = (tmp_path / "calls").read_text().removesuffix("\0\0").split("\0\0")
    words = call.split("\0")
    assert words[:5] == ["acls", "--klamm", "http://k:1", "--remove", "--force"]
    assert words[-4:] == ["--as", "User:a b", "--command-config", "c"]
    assert words[words.index("--topic") + 1] == NASTY
    assert not (tmp_path / "hacked").exists()


def test_csv_holds_every_column_of_every_finding() -> None:
    from app.pipeline.history.schemas import FINDINGS
    from app.pipeline.hygiene.mending import csv_lines

    text = "\n".join(csv_lines([finding(LINES)]))
    header, row = csv.reader(io.StringIO(text, newline=""))
    assert header == FINDINGS.fieldNames()
    named = dict(zip(header, row, strict=True))
    assert (named["resource_name"], named["covered"], named["used"]) == (LINES, "3", "")


def test_csv_holds_nothing_that_a_spreadsheet_runs(subtests: pytest.Subtests) -> None:
    from app.pipeline.history.schemas import FINDINGS
    from app.pipeline.hygiene.mending import csv_lines

    for name in ['=HYPERLINK("http://x")', "@SUM(1)", "+1", "-1", "\uff1dx", "a;=1"]:
        with subtests.test(name=name):
            _, row = csv.reader(io.StringIO("\n".join(csv_lines([finding(name)])), newline=""))
            cell = dict(zip(FINDINGS.fieldNames(), row, strict=True))["resource_name"]
            assert cell == marked(name) != name
            assert unmarked(cell) == name
