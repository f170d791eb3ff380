"""Shell scripts of the images, run."""

import subprocess
from pathlib import Path

import pytest

from tests.deploy.manifests import DEPLOY, TEXTS


@pytest.mark.parametrize("path", [path for path in TEXTS if path.suffix == ".sh"], ids=lambda path: path.name)
def test_shell_scripts_are_runnable(path: Path) -> None:
    assert path.stat().st_mode & 0o111
    assert subprocess.run(["/bin/bash", "-n", path], check=False, timeout=60).returncode == 0
    assert "set -euo pipefail" in path.read_text()


def test_the_pipeline_s_entrypoint_runs_what_it_is_given(tmp_path: Path) -> None:
    script = DEPLOY / "container" / "pipeline_entrypoint.sh"
    said = subprocess.run([script, "echo", "a b"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said == "a b\n"
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    names = ["DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP", "RESOURCE_PROFILE_ID"]
    names += ["EXECUTOR_POD_NAME", "EXECUTOR_MEMORY"]
    variables = {f"SPARK_{name}": f"the {name}" for name in names}
    variables |= {"JAVA_HOME": str(tmp_path), "SPARK_HOME": "/spark"}
    variables |= {f"SPARK_JAVA_OPT_{at}": f"-Dopt{at}=a b" for at in range(11)}
    done = subprocess.run([script, "executor"], env=variables, capture_output=True, text=True, check=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[:11] == [f"-Dopt{at}=a b" for at in range(11)]
    assert lines[11:13] == ["-Xmsthe EXECUTOR_MEMORY", "-Xmxthe EXECUTOR_MEMORY"]
    assert lines[lines.index("--podName") + 1] == "the EXECUTOR_POD_NAME"
