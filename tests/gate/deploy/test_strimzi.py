"""deploy/kafka: what Strimzi is told is what the plugin understands."""

import re
from pathlib import PurePosixPath

import pytest
import yaml

from tests.deploy.manifests import DEPLOY, ROOT, Json

_PLUGIN = ROOT / "plugin"
_SETTING = re.compile(r'"(klamm\.[a-z.]+[a-z])"')


@pytest.fixture(scope="module")
def kafka() -> Json:
    spec: Json = yaml.safe_load((DEPLOY / "kafka" / "strimzi.yaml").read_text())["spec"]["kafka"]
    return spec


def test_the_authorizer_is_there(kafka: Json) -> None:
    name = kafka["authorization"]["authorizerClass"]
    assert (_PLUGIN / "src" / "main" / "java" / f"{name.replace('.', '/')}.java").is_file()
    assert kafka["authorization"]["type"] == "custom"
    assert kafka["authorization"]["supportsAdminApi"] is True, "else Strimzi's users can have no ACLs"


def test_every_setting_is_one_of_the_plugin_and_of_its_page(kafka: Json) -> None:
    known = set(_SETTING.findall((_PLUGIN / "src/main/java/klamm/kafka/Settings.java").read_text()))
    page = (ROOT / "docs" / "kafka-broker.md").read_text()
    assert set(kafka["config"]) <= known
    for name in known:
        start, _, kind = name.rpartition(".")
        assert f"`{name}`" in page or (f"`{start}.*`" in page and f"`{kind}`" in page), name


def test_every_file_that_is_named_is_mounted(kafka: Json) -> None:
    (mount,) = kafka["template"]["kafkaContainer"]["volumeMounts"]
    (volume,) = kafka["template"]["pod"]["volumes"]
    assert mount["name"] == volume["name"]
    # Strimzi mounts nothing elsewhere.
    assert mount["mountPath"].startswith("/mnt/")
    for name in ("klamm.token.file", "klamm.truststore.location"):
        assert PurePosixPath(kafka["config"][name]).parent == PurePosixPath(mount["mountPath"])


def test_the_image_gets_the_jar_that_maven_builds() -> None:
    text = (DEPLOY / "kafka" / "Containerfile").read_text()
    (jar,) = re.findall(r"^COPY (\S+) /opt/kafka/libs/$", text, re.MULTILINE)
    name = re.search(r"<finalName>(.*)</finalName>", (_PLUGIN / "pom.xml").read_text())
    assert name is not None
    assert jar == f"{name[1]}.jar"
