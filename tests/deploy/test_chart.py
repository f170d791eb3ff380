"""The Helm chart makes the objects that kustomize makes: same names, settings, probes, security contexts, policies."""

import copy
import json
import re

import pytest
import yaml

from app import __version__
from tests.deploy.manifests import DEPLOY, Json, charted, containers_of, pods_of, rendered
from tests.deploy.test_prometheus import ALERTS

# The first one may fetch the tools.
pytestmark = pytest.mark.timeout(900)

CHART = DEPLOY / "helm" / "klamm"
# `helm install --namespace` doesn't make it; the page has it applied before.
NOT_IN_THE_CHART = {"Namespace"}
# The job and its volumes are no part of the service: the chart leaves them to kustomize.
PIPELINE = {"CronJob", "PersistentVolumeClaim"}


def _substance(objects: tuple[tuple[str, Json], ...]) -> dict[tuple[str, str], Json]:
    """Objects by kind and name, without what the two tools do each in its own way."""
    found = {}
    for _, each in objects:
        if each["kind"] in NOT_IN_THE_CHART | PIPELINE:
            continue
        this = json.loads(re.sub(r"klamm-settings-[a-z0-9]{10}", "klamm-settings", json.dumps(each)))
        annotations = this["metadata"].pop("annotations", {})
        assert all(name.startswith("helm.sh/hook") for name in annotations)
        this.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {}).pop(
            "checksum/settings", None
        )
        found[this["kind"], this["metadata"]["name"]] = this
    return found


def test_the_chart_with_its_defaults_is_what_the_central_overlay_is() -> None:
    chart = _substance(charted())
    assert len(chart) >= 9
    assert chart == _substance(rendered("overlays/central"))


def test_with_the_operator_s_kinds_it_is_the_overlay_of_everything_but_the_pipeline() -> None:
    chart = _substance(charted('{"prometheusOperator": {"enabled": true}}'))
    everything = copy.deepcopy(_substance(rendered("overlays/everything")))
    spec = everything["Deployment", "klamm"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    container["env"] = [each for each in container["env"] if not each["name"].startswith("KLAMM_DECISION_LOG")]
    container["volumeMounts"] = [each for each in container["volumeMounts"] if each["name"] != "decisions"]
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] != "decisions"]
    for each in (chart, everything):
        template = each["Deployment", "klamm"]["spec"]["template"]["spec"]
        template["volumes"].sort(key=lambda volume: str(volume["name"]))
        template["containers"][0]["volumeMounts"].sort(key=lambda mount: str(mount["name"]))
    assert chart == everything


def test_the_database_is_migrated_before_anything_is_installed_or_upgraded() -> None:
    hooks = {
        each["metadata"]["name"]: each["metadata"]["annotations"]
        for _, each in charted()
        if "helm.sh/hook" in each["metadata"].get("annotations", {})
    }
    assert hooks["klamm-migrate"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert hooks["klamm"]["helm.sh/hook"] == "pre-install", "its service account is there first, and stays in upgrades"
    assert int(hooks["klamm"]["helm.sh/hook-weight"]) < int(hooks["klamm-migrate"]["helm.sh/hook-weight"])


def test_another_klamm_toml_is_a_rollout() -> None:
    def checksum(values: Json) -> str:
        (deployment,) = [each for _, each in charted(json.dumps(values)) if each["kind"] == "Deployment"]
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["checksum/settings"])

    assert checksum({}) != checksum({"settings": "port = 8443\n"})


def test_values_reach_the_objects() -> None:
    values = {
        "image": {"repository": "registry.example.com/klamm", "digest": "sha256:" + "a" * 64},
        "imagePullSecrets": [{"name": "pull"}],
        "settings": "  port = 8443\n# {{ not a template }} <&> é\n\n",
        "env": [{"name": "KLAMM_LOG_LEVEL", "value": "DEBUG"}],
        "replicas": {"min": 2, "max": 5},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"operator": "Exists"}],
        "network": {"databaseCidrs": ["10.1.0.0/16"], "databasePort": 6432, "monitoringNamespace": "prometheus"},
        "prometheusOperator": {"enabled": True, "runbooks": "https://wiki.example.org/klamm/runbooks.html"},
    }
    objects = _substance(charted(json.dumps(values)))
    for container in containers_of(pods_of(charted(json.dumps(values)))):
        assert container.spec["image"] == "registry.example.com/klamm@sha256:" + "a" * 64
        assert container.pod.spec["imagePullSecrets"] == [{"name": "pull"}]
        assert (container.pod.spec["nodeSelector"], container.pod.spec["tolerations"]) == (
            {"disk": "fast"},
            [{"operator": "Exists"}],
        )
    assert objects["ConfigMap", "klamm-settings"]["data"]["klamm.toml"] == values["settings"]
    (container,) = objects["Deployment", "klamm"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "KLAMM_LOG_LEVEL", "value": "DEBUG"} in container["env"]
    scaler = objects["HorizontalPodAutoscaler", "klamm"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 5)
    (_, database) = objects["NetworkPolicy", "klamm-database"]["spec"]["egress"]
    assert database == {"ports": [{"protocol": "TCP", "port": 6432}], "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}
    assert "prometheus" in str(objects["NetworkPolicy", "klamm-clients"]["spec"]["ingress"])
    rule = objects["PrometheusRule", "klamm"]["spec"]
    alerts = [each for group in rule["groups"] for each in group["rules"]]
    assert [each["annotations"]["runbook_url"] for each in alerts] == [
        f"https://wiki.example.org/klamm/runbooks.html#{each['alert'].lower()}" for each in ALERTS
    ]


@pytest.mark.parametrize("file", ["klamm.toml", "klamm.rules.yaml"])
def test_settings_and_alerts_have_one_source(file: str) -> None:
    assert (CHART / "files" / file).is_symlink()
    assert (CHART / "files" / file).is_file()


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
