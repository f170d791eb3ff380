"""The scripts of findings, run by a shell: nothing in a name becomes a command."""

import subprocess
from pathlib import Path

from app.pipeline.hygiene.mending import KAFKA_ACLS, KLAMM, script_lines
from tests.gate.unit.pipeline.hygiene.test_mending import LINES, finding

MANIFEST = {"cluster_id": "x\ntouch hacked", "offset": 7}


NASTY = "a'b $(touch hacked) ; `touch hacked` 😀"


def test_the_script_hands_every_command_to_the_tool_once_and_runs_nothing_else(tmp_path: Path) -> None:
    tool = tmp_path / "kafka-acls"
    tool.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >> calls; printf "\\0" >> calls\n')
    tool.chmod(0o755)
    findings = [finding(NASTY), finding(NASTY, "VOID"), finding(LINES), finding("plain")]
    script = "\n".join(script_lines(findings, {**MANIFEST, "tool": KAFKA_ACLS}))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "BOOTSTRAP": "b:9092", "COMMAND_CONFIG": "c.properties"}
    subprocess.run(["/bin/bash", "-c", script], cwd=tmp_path, env=environment, check=True)
    calls = [call.split("\0") for call in (tmp_path / "calls").read_text().removesuffix("\0\0").split("\0\0")]
    assert [call[call.index("--topic") + 1] for call in calls] == [NASTY, "plain"]
    assert calls[0][:4] == ["--command-config", "c.properties", "--bootstrap-server", "b:9092"]
    assert not (tmp_path / "hacked").exists()


def test_by_default_the_script_speaks_to_klamm(tmp_path: Path) -> None:
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
