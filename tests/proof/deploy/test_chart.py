"""The Helm chart, rendered: hooks, values, settings."""

import json

import pytest

from tests.deploy.manifests import Json, containers_of, pods_of
from tests.gate.deploy.test_prometheus import ALERTS
from tests.proof.deploy.rendering import charted

# The first one may fetch the tools.
pytestmark = pytest.mark.timeout(900)


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
    values: Json = {
        "image": {"repository": "registry.example.com/klamm", "digest": "sha256:" + "a" * 64},
        "imagePullSecrets": [{"name": "pull"}],
        "settings": "  port = 8443\n# {{ not a template }} <&> é\n\n",
        "env": [{"name": "KLAMM_LOG_LEVEL", "value": "DEBUG"}],
        "volumes": [{"name": "state", "emptyDir": {}}],
        "volumeMounts": [{"name": "state", "mountPath": "/var/lib/klamm"}],
        "replicas": {"min": 2, "max": 5},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"operator": "Exists"}],
        "network": {"databaseCidrs": ["10.1.0.0/16"], "databasePort": 6432, "monitoringNamespace": "prometheus"},
        "prometheusOperator": {"enabled": True, "runbooks": "https://wiki.example.org/klamm/runbooks.html"},
    }
    objects = {(each["kind"], each["metadata"]["name"]): each for _, each in charted(json.dumps(values))}
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
    assert container["volumeMounts"][-1] == values["volumeMounts"][0]
    assert objects["Deployment", "klamm"]["spec"]["template"]["spec"]["volumes"][-1] == values["volumes"][0]
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
