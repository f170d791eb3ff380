"""Versions in deploy/pipeline and what goes with it: those of the locks, of the Containerfile and of the code."""

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from app import __version__
from app.pipeline.spark import java, jdbc_driver
from tests.deploy.containerfile import stages
from tests.deploy.manifests import DEPLOY, ROOT, containers_of, manifests, pods_of

PIPELINE = sorted((DEPLOY / "pipeline").glob("*.yaml"))
PAGES = [*PIPELINE, ROOT / "docs" / "pipeline.md", ROOT / "docs" / "kubernetes.md"]
LOCKED = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements-spark.lock").read_text(), re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _hadoop() -> str:
    package = find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    (jar,) = (Path(package.origin).parent / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def test_there_is_something_to_compare() -> None:
    assert {path.name for path in PIPELINE} == {"claims.yaml", "cronjob.yaml", "kustomization.yaml", "submit-job.yaml"}
    assert {"pyspark", "pyarrow", "pandas"} <= LOCKED.keys()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_images_are_of_this_version_wherever_they_are_named(path: Path) -> None:
    tags = re.findall(r"\bklamm(?:-pipeline)?:(\d[\w.-]*)", path.read_text())
    assert set(tags) <= {__version__}
    assert tags or path.name in {"claims.yaml", "kustomization.yaml", "pipeline.md"}


def test_spark_gives_its_own_pods_the_image_of_the_pod_that_submits() -> None:
    containers = [each.spec for each in containers_of(pods_of(manifests()))]
    (submit,) = [each for each in containers if each.get("command") == ["klamm-pipeline-entrypoint", "submit"]]
    (image,) = [each for each in submit["args"] if each.startswith("--conf=spark.kubernetes.container.image=")]
    assert image.rpartition("=")[2] == submit["image"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_spark_is_the_one_that_is_locked_and_hadoop_the_one_that_it_carries(path: Path) -> None:
    text = path.read_text()
    for version in re.findall(r"\bSpark (\d[\d.]*\d)", text):
        assert f"{LOCKED['pyspark']}.".startswith(f"{version}."), version
    for version in re.findall(r"hadoop-aws:([\d.]*\d)|carries \((\d[\d.]*\d)\)", text):
        assert "".join(version) == _hadoop()


def test_the_submitted_job_names_spark_and_hadoop() -> None:
    text = (DEPLOY / "pipeline" / "submit-job.yaml").read_text()
    assert re.search(r"\bSpark \d", text)
    assert f"hadoop-aws:{_hadoop()}" in text


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_driver_is_of_the_version_that_klamm_knows(path: Path) -> None:
    assert set(re.findall(r"\bpostgresql-[\d.]+\.jar", path.read_text())) <= {jdbc_driver.JAR}


def test_what_executors_need_is_what_is_locked() -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text()
    (said,) = re.findall(r"Executors need .* with pyarrow (\d+) and pandas (\d+),", page)
    assert said == (LOCKED["pyarrow"].partition(".")[0], LOCKED["pandas"].partition(".")[0])


def test_the_image_has_a_python_and_a_java_that_the_locked_pyspark_runs_on() -> None:
    (spark,) = [each for each in PROJECT["optional-dependencies"]["spark"] if each.startswith("pyspark")]
    assert LOCKED["pyspark"] in SpecifierSet(spark.removeprefix("pyspark"))
    version = re.search(r":(\d+)[\w.]*-jre", stages()["java"].image)
    assert version is not None
    assert int(version[1]) in java.MAJORS
