"""Images of rendered manifests are those that the Containerfile tags."""

import re

from tests.deploy.containerfile import TEXT
from tests.deploy.manifests import DEPLOY, containers_of, documents, manifests, pods_of
from tests.proof.deploy.rendering import charted, rendered


def test_every_container_of_ours_has_an_image_that_the_containerfile_tags() -> None:
    built = dict(re.findall(r"--target (\w+) --tag (\S+)", TEXT))
    assert built.keys() == {"service", "pipeline"}
    kustomizations = [
        each for path in ("sidecar/component", "pipeline") for each in documents(DEPLOY / path / "kustomization.yaml")
    ]
    pinned = {f"{image['newName']}:{image['newTag']}" for each in kustomizations for image in each["images"]}
    assert pinned == set(built.values())
    objects = (*charted(), *rendered("sidecar/example"), *rendered("pipeline"), *manifests())
    images = {each.spec.get("image", "") for each in containers_of(pods_of(objects))}
    ours = {image for image in images if image.startswith("klamm")}
    assert ours == {*built.values(), "klamm"}, "`klamm` alone is pinned by the sidecar's component"
