"""What kustomize makes of the manifests: pinned images, objects that are there, pods that pass the standard."""

import re

import pytest

from app import __version__
from tests.deploy.manifests import OVERLAYS, ROOT, Pod, containers_of, pods_of, rendered

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()


def _named_objects(pods: list[Pod]) -> set[str]:
    volumes = [each for pod in pods for each in pod.spec.get("volumes", [])]
    return {each["secret"]["secretName"] for each in volumes if "secret" in each} | {
        each["configMap"]["name"] for each in volumes if "configMap" in each
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_kustomization_renders_to_pinned_images_and_objects_that_are_there_or_explained(overlay: str) -> None:
    objects = rendered(overlay)
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


def test_another_klamm_toml_is_another_config_map_and_so_a_rollout() -> None:
    (deployment,) = [each for _, each in rendered("overlays/central") if each["kind"] == "Deployment"]
    (name,) = [
        each["configMap"]["name"]
        for each in deployment["spec"]["template"]["spec"]["volumes"]
        if each["name"] == "settings"
    ]
    assert re.fullmatch(r"klamm-settings-[a-z0-9]{10}", name)


def test_the_sidecar_is_put_into_deployments_that_ask_for_it() -> None:
    (app,) = [pod for pod in pods_of(rendered("overlays/sidecar")) if "Deployment orders" in pod.where]
    assert [each["name"] for each in app.spec["initContainers"]] == ["klamm"]
    assert [each["name"] for each in app.spec["containers"]] == ["orders"]


def test_rendered_pods_pass_the_standard_that_their_namespace_enforces() -> None:
    (namespace,) = [each for _, each in rendered("overlays/everything") if each["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for container in containers_of(pods_of(rendered("overlays/everything")) + pods_of(rendered("overlays/sidecar"))):
        test_confined = {**container.pod.spec.get("securityContext", {}), **container.spec["securityContext"]}
        assert test_confined["runAsNonRoot"] is True
        assert test_confined["allowPrivilegeEscalation"] is False
        assert test_confined["capabilities"]["drop"] == ["ALL"]
        assert test_confined["seccompProfile"]["type"] == "RuntimeDefault"
