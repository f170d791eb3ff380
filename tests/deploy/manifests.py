"""What stands in deploy/: manifests, their pods and containers, read as they are."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "klamm"
CENTRAL = CHART / "files"
"""Where the central service's klamm.toml is."""
FOLDERS = ("compose", "container", "grafana", "helm", "kafka", "pipeline", "postgres", "prometheus", "sidecar")
TEXTS = [
    path
    for path in [*sorted(DEPLOY.glob("*")), *(each for name in FOLDERS for each in sorted((DEPLOY / name).rglob("*")))]
    if path.is_file() and not {"secrets", "__pycache__"} & set(path.parts)
]

Json = dict[str, Any]


class Pod(NamedTuple):
    """A pod's specification and where it stands."""

    where: str
    labels: Json
    spec: Json


class Container(NamedTuple):
    """A container, the pod that it is in, and where it stands."""

    where: str
    pod: Pod
    spec: Json


def documents(path: Path) -> list[Json]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


@cache
def manifests() -> tuple[tuple[str, Json], ...]:
    """Every object in files beside the chart, unrendered; the pod template that Spark is given is one, too."""
    found: list[tuple[str, Json]] = []
    paths = [
        DEPLOY / "helm" / "namespace.yaml",
        *(DEPLOY / "sidecar").rglob("*.yaml"),
        *(DEPLOY / "pipeline").glob("*.yaml"),
    ]
    for path in sorted(paths):
        for each in documents(path):
            where = f"{path.relative_to(DEPLOY)} {each.get('kind')} {each.get('metadata', {}).get('name', '')}"
            found.append((where, each))
            if each["kind"] == "ConfigMap" and "pod.yaml" in each.get("data", {}):
                found.append((f"{where} pod.yaml", yaml.safe_load(each["data"]["pod.yaml"])))
    return tuple(found)


def _pods(where: str, document: Json) -> Iterator[Pod]:
    template = document
    spec = document.get("spec", {})
    if document["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    if document["kind"] != "Pod":
        template = spec.get("template", {})
    if isinstance(template, dict) and "spec" in template:
        yield Pod(where, template.get("metadata", {}).get("labels", {}), template["spec"])


def pods_of(objects: Iterable[tuple[str, Json]]) -> list[Pod]:
    return [pod for where, each in objects for pod in _pods(where, each)]


def containers_of(pods: list[Pod]) -> list[Container]:
    return [
        Container(f"{pod.where} {spec['name']}", pod, spec)
        for pod in pods
        for spec in [*pod.spec.get("initContainers", []), *pod.spec.get("containers", [])]
    ]


def the(kind: str, name: str, path: Path) -> Json:
    (found,) = [each for each in documents(path) if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def environment(container: Json) -> dict[str, str]:
    """The container's variables."""
    return {each["name"]: each["value"] for each in container.get("env", [])}


def mount_of(container: Json, path: str) -> Json | None:
    """The mount that a path lies in."""
    within = [each for each in container.get("volumeMounts", []) if f"{path}/".startswith(f"{each['mountPath']}/")]
    return max(within, key=lambda each: len(each["mountPath"]), default=None)


def seconds(text: str) -> float:
    """90s, 2m."""
    found = re.fullmatch(r"(\d+)(ms|s|m|h)", text)
    assert found is not None, text
    return int(found[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[found[2]]
