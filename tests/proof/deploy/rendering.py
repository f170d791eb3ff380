"""The objects that Helm and kustomize make of deploy/."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.deploy.manifests import CHART, DEPLOY, ROOT, Json

EVERYTHING = f"prometheusOperator: {{enabled: true}}\n{(DEPLOY / 'helm' / 'decision-log.values.yaml').read_text()}"
"""Values of the chart with all that is optional."""
OVERLAYS = ("sidecar/example", "pipeline")


def charted_object(kind: str, name: str = "klamm") -> Json:
    """One of the chart with all that is optional."""
    objects = charted(EVERYTHING)
    (found,) = [each for _, each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


@cache
def rendered(overlay: str) -> tuple[tuple[str, Json], ...]:
    """The objects of a kustomization as kubectl renders them. Skips the test where no kubectl is to be had."""
    kubectl = shutil.which("kubectl") or _cached_kubectl()
    done = subprocess.run(
        [kubectl, "kustomize", str(DEPLOY / overlay)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return tuple(
        (f"{overlay} {each['kind']} {each['metadata']['name']}", each) for each in yaml.safe_load_all(done.stdout)
    )


@cache
def charted(values: str = "{}") -> tuple[tuple[str, Json], ...]:
    """The objects that Helm makes of the chart with these values. Skips the test where no Helm is to be had."""
    code = "import deploy_tools; print(deploy_tools.python_tools())"
    tools = _of_check_deploy(code, "the packages of .ci/deploy-tools.lock are not to be had: the chart is not rendered")
    if not (Path(tools) / "helm_python").is_dir():
        pytest.skip("helm-python-sdk has no wheel for this machine: the chart is not rendered")
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "helm_chart.py"), str(CHART), values],
        env={**os.environ, "PYTHONPATH": tools},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return tuple(
        (f"chart {each['kind']} {each['metadata']['name']}", each) for each in yaml.safe_load_all(done.stdout) if each
    )


def _cached_kubectl() -> str:
    code = "import check_deploy; print(check_deploy._program('kubectl'))"
    return _of_check_deploy(code, "there is no kubectl, and none is to be had: manifests are not rendered")


def _of_check_deploy(code: str, why_not: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / ".ci", capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        pytest.skip(why_not)
    return done.stdout.strip()
