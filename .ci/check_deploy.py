"""Look at deploy/ and .github/ with the tools of those who run such files: `python .ci/check_deploy.py [CHECK ...]`.

Ends with 0 if all is in order, with 1 if a tool finds something, with 3 if one can't be had here: a line says which.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from deploy_tools import ROOT, RUN_TIMEOUT_S, NotToBeHad, actionlint, promtool, python_tools, said

IN_ORDER, FOUND, NOT_CHECKED = 0, 1, 3
DEPLOY = ROOT / "deploy"
# Kinds of operators: Kubernetes' own schemas don't know them.
FOREIGN = "monitoring.coreos.com/"

Finding = str


def hadolint() -> Iterator[Finding]:
    """The Containerfiles."""
    tool = python_tools() / "bin" / "hadolint"
    files = sorted(DEPLOY.rglob("Containerfile"))
    status, output = said([tool, "--config", ROOT / ".ci" / "hadolint.yaml", *files])
    if status:
        yield output


def kubernetes() -> Iterator[Finding]:
    """Every kustomization can be rendered; that, and what is applied as is, fits Kubernetes' schemas to the letter."""
    found: dict[str, str] = {}
    for folder in sorted(path.parent for path in DEPLOY.rglob("kustomization.yaml")):
        if "kind: Component" in (folder / "kustomization.yaml").read_text(encoding="utf-8"):
            continue
        status, output = said([_program("kubectl"), "kustomize", folder])
        if status:
            yield output
        else:
            found[str(folder.relative_to(DEPLOY)).replace("/", "-")] = output
    for path in (DEPLOY / "pipeline" / "submit-job.yaml", DEPLOY / "helm" / "namespace.yaml"):
        found[path.stem] = path.read_text(encoding="utf-8")
    yield from _misfits(found)


def helm() -> Iterator[Finding]:
    """The chart passes Helm's lint; what it renders, plain and with all that is optional, fits Kubernetes' schemas."""
    tools = python_tools()
    if not (tools / "helm_python").is_dir():
        raise NotToBeHad("helm-python-sdk has no wheel for this machine, only for Linux on x86_64")
    found: dict[str, str] = {}
    decision_log = (DEPLOY / "helm" / "decision-log.values.yaml").read_text(encoding="utf-8")
    for name, values in (
        ("chart", "{}"),
        ("chart-everything", f"prometheusOperator: {{enabled: true}}\n{decision_log}"),
    ):
        done = _python([str(ROOT / ".ci" / "helm_chart.py"), str(DEPLOY / "helm" / "klamm"), values], tools)
        if done.returncode:
            yield done.stdout.strip() or done.stderr.strip()
        else:
            found[name] = done.stdout
    yield from _misfits(found)


def prometheus() -> Iterator[Finding]:
    """The alerts' syntax, and their tests."""
    tool, folder = promtool(), DEPLOY / "prometheus"
    for kind, pattern in (("check", "*.rules.yaml"), ("test", "*.test.yaml")):
        for path in sorted(folder.glob(pattern)):
            status, output = said([tool, kind, "rules", path.name], folder=folder)
            if status:
                yield output
    with tempfile.TemporaryDirectory() as here:
        # The credentials are a secret that isn't there; its syntax is what is looked at.
        status, output = said([tool, "check", "config", "--syntax-only", _compose_configuration(Path(here))])
    if status:
        yield output


def compose() -> Iterator[Finding]:
    """The compose file fits the Compose specification."""
    tools = python_tools()
    # It reads neither YAML's merges nor images with both tag and digest: it gets the former done, and the tags.
    code = (
        "import json, re, sys, yaml, compose_spec as c; text = re.sub('@sha256:[0-9a-f]{64}', '', sys.stdin.read()); "
    )
    code += "c.PyCompose.from_json(json.dumps(yaml.safe_load(text)))"
    done = _python(["-c", code], tools, (DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    if done.returncode:
        yield done.stderr.strip().splitlines()[-1]


def workflows() -> Iterator[Finding]:
    """GitHub would run the workflows."""
    status, output = said([actionlint(), "-no-color", *sorted((ROOT / ".github" / "workflows").glob("*.yaml"))])
    if status:
        yield output


CHECKS: dict[str, tuple[str, Callable[[], Iterator[Finding]]]] = {
    "hadolint": ("hadolint, Containerfile", hadolint),
    "kubernetes": ("kubectl kustomize and kubernetes-validate, deploy/sidecar and deploy/pipeline", kubernetes),
    "helm": ("Helm's lint and template and kubernetes-validate, deploy/helm", helm),
    "compose": ("compose-spec, deploy/compose.yaml", compose),
    "prometheus": ("promtool, deploy/prometheus and deploy/compose", prometheus),
    "workflows": ("actionlint, .github/workflows", workflows),
}


def _misfits(manifests: Mapping[str, str]) -> Iterator[Finding]:
    """What Kubernetes' schemas have against these manifests."""
    tools = python_tools()
    with tempfile.TemporaryDirectory() as here:
        paths = []
        for name, text in manifests.items():
            documents = [each for each in text.split("\n---\n") if f"apiVersion: {FOREIGN}" not in each]
            paths.append(Path(here) / f"{name}.yaml")
            paths[-1].write_text("\n---\n".join(documents), encoding="utf-8")
        done = _python(["-m", "kubernetes_validate", "--strict", "--quiet", *map(str, paths)], tools)
    if done.returncode:
        yield f"{done.stdout}{done.stderr}"


def _python(arguments: Sequence[str], packages: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(packages)},
    )


def _program(name: str) -> Path:
    tools = python_tools()
    found = [path for path in sorted(tools.rglob(name)) if path.is_file() and os.access(path, os.X_OK)]
    if not found:
        raise NotToBeHad(f"there is no program `{name}` in what .ci/deploy-tools.lock installs")
    return found[0]


def _compose_configuration(folder: Path) -> Path:
    for source, name in (("compose/prometheus.yaml", "prometheus.yml"), ("prometheus/klamm.rules.yaml", None)):
        path = DEPLOY / source
        (folder / (name or path.name)).write_bytes(path.read_bytes())
    return folder / "prometheus.yml"


def main() -> int:
    """Run the checks that the command line names, or all; one line for each, and what was found below it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"{', '.join(CHECKS)} (all)")
    chosen = parser.parse_args().checks or [*CHECKS]
    if unknown := [each for each in chosen if each not in CHECKS]:
        parser.error(f"there is no check `{unknown[0]}`; there are {', '.join(CHECKS)}")
    worst = IN_ORDER
    for name, check in (CHECKS[each] for each in chosen):
        try:
            findings = [*check()]
        except NotToBeHad as why:
            print(f"check-deploy: NOT CHECKED, which is not 'in order': {name}: {why}")
            worst = worst or NOT_CHECKED
            continue
        print(f"check-deploy: {'found something' if findings else 'in order'}: {name}")
        for each in findings:
            print(each.rstrip())
            worst = FOUND
    return worst


if __name__ == "__main__":
    sys.exit(main())
