"""What Helm and kustomize make of the manifests: pinned images, objects that are there, pods that pass the standard."""

import re

import pytest

from app import __version__
from tests.deploy.manifests import ROOT, Pod, containers_of, manifests, pods_of
from tests.proof.deploy.rendering import EVERYTHING, OVERLAYS, charted, rendered

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()


def _named_objects(pods: list[Pod]) -> set[str]:
    volumes = [each for pod in pods for each in pod.spec.get("volumes", [])]
    return {each["secret"]["secretName"] for each in volumes if "secret" in each} | {
        each["configMap"]["name"] for each in volumes if "configMap" in each
    }


@pytest.mark.parametrize("what", ["chart", *OVERLAYS])
def test_it_renders_to_pinned_images_and_objects_that_are_there_or_explained(what: str) -> None:
    objects = charted(EVERYTHING) if what == "chart" else rendered(what)
    images = {each.spec["image"] for each in containers_of(pods_of(objects))}
    assert images
    for image in images:
        name, _, tag = image.rpartition(":")
        assert re.fullmatch(r"\d+\.\d+\.\d+", tag), image
        assert tag == __version__ or name.startswith("registry.example.com/")
    made = {each["metadata"]["name"] for _, each in objects if each["kind"] in {"Secret", "ConfigMap"}}
    missing = _named_objects(pods_of(objects)) - made
    assert missing
    explained = set(re.findall(r"^\| (?:Secret|ConfigMap) `([\w-]+)`", PAGE, re.MULTILINE))
    assert missing <= explained, "whoever applies it has to know what to make first"
    assert {each["metadata"].get("namespace") for _, each in objects if each["kind"] != "Namespace"} == {"klamm"}


def test_the_sidecar_is_put_into_deployments_that_ask_for_it() -> None:
    (app,) = [pod for pod in pods_of(rendered("sidecar/example")) if "Deployment orders" in pod.where]
    assert [each["name"] for each in app.spec["initContainers"]] == ["klamm"]
    assert [each["name"] for each in app.spec["containers"]] == ["orders"]


def test_rendered_pods_pass_the_standard_that_their_namespace_enforces() -> None:
    (namespace,) = [each for _, each in manifests() if each["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pods = [pod for objects in (charted(EVERYTHING), *map(rendered, OVERLAYS)) for pod in pods_of(objects)]
    for container in containers_of(pods):
        test_confined = {**container.pod.spec.get("securityContext", {}), **container.spec["securityContext"]}
        assert test_confined["runAsNonRoot"] is True
        assert test_confined["allowPrivilegeEscalation"] is False
        assert test_confined["capabilities"]["drop"] == ["ALL"]
        assert test_confined["seccompProfile"]["type"] == "RuntimeDefault"
