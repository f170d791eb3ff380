"""Manifests, rendered where they are templates, mean what the code means: flags, probes, ports, files, times."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from app.cli.commands import COMMANDS
from app.cli.entry_point import load
from app.process.supervisor import END_TIMEOUT_S
from app.rest.openapi import build_openapi
from tests.deploy.manifests import (
    CENTRAL,
    Container,
    Json,
    Pod,
    containers_of,
    environment,
    manifests,
    mount_of,
    pods_of,
)
from tests.proof.deploy.rendering import EVERYTHING, charted, charted_object

# The first one that asks for the chart may fetch the tools.
pytestmark = pytest.mark.timeout(900)
PROBES = {"startupProbe": "/startupz", "readinessProbe": "/readyz", "livenessProbe": "/livez"}
each_source = pytest.mark.parametrize("source", ["files", "chart"])


def pods(source: str) -> list[Pod]:
    """Those of the chart with all that is optional, or those of the files beside it."""
    return pods_of(charted(EVERYTHING) if source == "chart" else manifests())


def ours(source: str) -> list[Container]:
    """Without an example of somebody else's; with the pod template that Spark is given."""
    found = containers_of(pods(source))
    return [each for each in found if each.spec.get("image", "").startswith("klamm") or "pod.yaml" in each.where]


def serving(source: str) -> Container:
    """The central service of the chart, or the sidecar."""
    (found,) = [each for each in ours(source) if each.spec.get("args") == ["serve"]]
    return found


def toml() -> Json:
    return tomllib.loads((CENTRAL / "klamm.toml").read_text())


def test_there_are_manifests_for_both_ways_and_for_what_goes_with_them() -> None:
    assert {each["kind"] for _, each in manifests()} >= {"Namespace", "Deployment", "CronJob", "PersistentVolumeClaim"}
    assert {each["kind"] for _, each in charted(EVERYTHING)} == {
        "ConfigMap",
        "Deployment",
        "Service",
        "Job",
        "PodDisruptionBudget",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "ServiceMonitor",
        "PrometheusRule",
        "ServiceAccount",
    }


def test_the_sidecar_follows_the_central_service_and_knows_no_database() -> None:
    sidecar = serving("files")
    (url,) = environment(sidecar.spec)["KLAMM_UPSTREAM_URLS"].split(",")
    service = charted_object("Service")
    assert url == f"https://{service['metadata']['name']}.klamm.svc"
    assert [each["port"] for each in service["spec"]["ports"]] == [443]
    (secret,) = [each["secret"]["secretName"] for each in sidecar.pod.spec["volumes"]]
    caller = toml()["callers"][secret.removeprefix("klamm-")]
    assert caller == {"role": "follow"}, "it may hand on updates of nobody"
    for name in ("KLAMM_UPSTREAM_TOKEN_FILE", "KLAMM_UPSTREAM_CA_FILE"):
        assert mount_of(sidecar.spec, environment(sidecar.spec)[name]) is not None
    assert "database" not in str(sidecar.spec)


@each_source
def test_what_is_started_exists(source: str) -> None:
    for container in ours(source):
        if "command" in container.spec:
            assert container.spec["command"][0] in {"klamm", "klamm-pipeline-entrypoint"}
        elif "args" in container.spec:
            name, *words = container.spec["args"]
            load(COMMANDS[name], words)


@each_source
def test_the_three_probes_ask_three_things_that_the_service_answers(source: str) -> None:
    container = serving(source)
    routes = build_openapi()["paths"]
    for probe, path in PROBES.items():
        assert path in routes
        spec = container.spec[probe]
        if "exec" in spec:
            assert spec["exec"]["command"] == ["klamm-probe", path]
        else:
            assert spec["httpGet"]["path"] == path
    startup, readiness, liveness = (container.spec[probe] for probe in PROBES)
    # What only waits is no reason to start again; ten minutes is when Kubernetes forgets earlier restarts.
    assert startup["periodSeconds"] * startup["failureThreshold"] > 600
    assert readiness["periodSeconds"] * readiness["failureThreshold"] <= 10
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 60
    assert all(spec["timeoutSeconds"] > 1 for spec in (startup, readiness, liveness)), "siblings have half a second"


def test_the_central_service_is_asked_where_it_listens() -> None:
    central = serving("chart")
    settings = toml()
    (port,) = central.spec["ports"]
    assert port["containerPort"] == settings["port"]
    for probe in PROBES:
        assert central.spec[probe]["httpGet"]["port"] == port["name"]
        assert central.spec[probe]["httpGet"]["scheme"] == "HTTPS", "it has a certificate"
    service = charted_object("Service")
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]
    policy = charted_object("NetworkPolicy", "klamm-clients")
    (rule,) = policy["spec"]["ingress"]
    assert [each["port"] for each in rule["ports"]] == [port["name"]]
    assert rule["from"], "an empty one would let all come"


def test_every_file_that_the_settings_name_is_mounted() -> None:
    central = serving("chart")
    settings = toml()
    names = [settings["tls"]["certificate"], settings["tls"]["key"], settings["tokens"]["file"]]
    names += [environment(central.spec)["KLAMM_DATABASE_URL_FILE"], "/etc/klamm/klamm.toml"]
    for name in names:
        assert mount_of(central.spec, name) is not None, name


@each_source
def test_a_pod_is_given_the_time_that_a_drain_may_take(source: str) -> None:
    container = serving(source)
    drain_ms = int(environment(container.spec).get("KLAMM_DRAIN_MS", toml()["drain"]["ms"]))
    grace = container.pod.spec.get("terminationGracePeriodSeconds")
    if grace is None:
        # The sidecar's pod is somebody's: that of the example counts.
        (grace,) = [pod.spec["terminationGracePeriodSeconds"] for pod in pods(source) if "app.yaml" in pod.where]
    assert grace > drain_ms / 1000 + END_TIMEOUT_S


@each_source
def test_every_container_is_confined(source: str) -> None:
    for container in ours(source):
        own, pod = container.spec["securityContext"], container.pod.spec.get("securityContext", {})
        assert own["allowPrivilegeEscalation"] is False, container.where
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert own.get("runAsNonRoot", pod.get("runAsNonRoot")) is True
        assert own.get("runAsUser", pod.get("runAsUser")) == own.get("runAsGroup", pod.get("runAsGroup")) == 10001
        assert own.get("seccompProfile", pod.get("seccompProfile")) == {"type": "RuntimeDefault"}
        assert not pod.get("hostNetwork")
        assert not own.get("privileged")
        assert not [each for each in container.pod.spec.get("volumes", []) if "hostPath" in each]


@each_source
def test_no_pod_has_a_token_of_the_cluster_that_it_does_not_need(source: str) -> None:
    for pod in pods(source):
        if "containers" in pod.spec and "submit-job" not in pod.where:
            assert pod.spec["automountServiceAccountToken"] is False, pod.where


@each_source
def test_memory_is_bounded_and_the_processor_is_not(source: str) -> None:
    for container in ours(source):
        if "resources" not in container.spec:
            # Spark's own options say how much its pods have.
            assert "pod.yaml" in container.where
            continue
        resources = container.spec["resources"]
        assert resources["requests"]["cpu"], container.where
        assert "cpu" not in resources["limits"]
        if "pipeline" not in container.where:
            assert resources["requests"]["memory"] == resources["limits"]["memory"]


@each_source
def test_every_mount_has_its_volume(source: str) -> None:
    for container in ours(source):
        mounted = {each["name"] for each in container.spec.get("volumeMounts", [])}
        assert mounted <= {each["name"] for each in container.pod.spec.get("volumes", [])}, container.where


def test_rollouts_and_drained_nodes_leave_replicas_to_serve() -> None:
    deployment = charted_object("Deployment")["spec"]
    assert "replicas" not in deployment, "each apply would undo what the autoscaler has done"
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    labels = deployment["template"]["metadata"]["labels"]
    budget = charted_object("PodDisruptionBudget")["spec"]
    scaler = charted_object("HorizontalPodAutoscaler")["spec"]
    assert budget["maxUnavailable"] == 1
    assert scaler["minReplicas"] >= 2
    assert scaler["scaleTargetRef"]["name"] == "klamm"
    spread = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert {each["topologyKey"] for each in spread} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    selectors = [budget["selector"], deployment["selector"], *(each["labelSelector"] for each in spread)]
    selectors.append({"matchLabels": charted_object("Service")["spec"]["selector"]})
    for selector in selectors:
        assert selector["matchLabels"].items() <= labels.items()


def _allows(policies: list[Json], pod: Pod, direction: str) -> list[Any]:
    return [
        rule
        for policy in policies
        if policy["spec"]["podSelector"].get("matchLabels", {}).items() <= pod.labels.items()
        for rule in policy["spec"].get(direction, [])
    ]


def test_klamm_s_pods_reach_names_and_the_database_and_nothing_else() -> None:
    policies = [each for _, each in charted(EVERYTHING) if each["kind"] == "NetworkPolicy"]
    ours = [pod for pod in pods("chart") + pods("files") if pod.labels.get("app.kubernetes.io/part-of") == "klamm"]
    assert {pod.labels["app.kubernetes.io/name"] for pod in ours} == {"klamm", "klamm-migrate", "klamm-pipeline"}
    (closed,) = [each for each in policies if "egress" not in each["spec"] and "ingress" not in each["spec"]]
    assert set(closed["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    for pod in ours:
        assert closed["spec"]["podSelector"]["matchLabels"].items() <= pod.labels.items()
        ports = [each["port"] for rule in _allows(policies, pod, "egress") for each in rule["ports"]]
        assert sorted(ports) == [53, 53, 5432]
        entrances = _allows(policies, pod, "ingress")
        assert bool(entrances) == (pod.labels["app.kubernetes.io/name"] == "klamm")


def test_a_mistake_in_a_setting_is_not_tried_again() -> None:
    job = charted_object("Job", "klamm-migrate")["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [2])
    assert rule["onExitCodes"]["containerName"] == job["template"]["spec"]["containers"][0]["name"]
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_the_service_does_not_know_the_migrator_s_password() -> None:
    def secrets(pod: Pod) -> set[str]:
        return {each["secret"]["secretName"] for each in pod.spec.get("volumes", []) if "secret" in each}

    migrating = [pod for pod in pods("chart") if pod.labels.get("app.kubernetes.io/name") == "klamm-migrate"]
    others = [pod for pod in pods("chart") + pods("files") if pod not in migrating]
    assert [secrets(pod) for pod in migrating] == [{"klamm-migrate"}]
    assert not [pod.where for pod in others if "klamm-migrate" in secrets(pod)]


def test_the_pipeline_reads_the_decisions_where_the_service_writes_them() -> None:
    writer = serving("chart")
    (reader,) = [each for each in ours("files") if "CronJob" in each.where]

    def claim_at(container: Container, path: str) -> str:
        mount = mount_of(container.spec, path)
        assert mount is not None
        assert mount["mountPath"] == path, "files lie at the claim's root for both"
        (volume,) = [each for each in container.pod.spec["volumes"] if each["name"] == mount["name"]]
        return str(volume["persistentVolumeClaim"]["claimName"])

    path = environment(writer.spec)["KLAMM_DECISION_LOG_PATH"]
    (decisions,) = [each.partition("=")[2] for each in reader.spec["args"] if each.startswith("--decisions=")]
    assert claim_at(writer, path) == claim_at(reader, decisions)
    claims = {each["metadata"]["name"] for _, each in manifests() if each["kind"] == "PersistentVolumeClaim"}
    wanted = {
        each["persistentVolumeClaim"]["claimName"] for each in reader.pod.spec["volumes"] if "persist" in str(each)
    }
    assert wanted == claims
    (metrics,) = [each.partition("=")[2] for each in reader.spec["args"] if each.startswith("--metrics-file=")]
    mount = mount_of(reader.spec, metrics)
    assert mount is not None
    assert str(Path(metrics).parent) == mount["mountPath"], "a folder below it would have to be there already"


def test_prometheus_comes_with_the_token_of_a_caller_that_may_only_look() -> None:
    monitor = charted_object("ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["path"] in build_openapi()["paths"]
    service = charted_object("Service")
    assert endpoint["port"] in {each["name"] for each in service["spec"]["ports"]}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert endpoint["scheme"] == "https"
    assert toml()["callers"][endpoint["authorization"]["credentials"]["name"].removeprefix("klamm-")] == {
        "role": "observe"
    }
