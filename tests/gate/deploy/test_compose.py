"""The compose file: what it names exists, its probes are the service's, and its secrets are made as it reads them."""

import re

import pytest
import yaml

from app import __version__
from app.process.supervisor import END_TIMEOUT_S
from app.settings.model import Settings
from tests.deploy.manifests import DEPLOY, seconds

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
REPLICAS = ("klamm-1", "klamm-2")
FOLDER = DEPLOY / "compose"
HAPROXY = (FOLDER / "haproxy.cfg").read_text()


def test_there_are_two_replicas_a_database_a_migration_a_balancer_and_prometheus() -> None:
    assert set(SERVICES) == {"postgres", "migrate", *REPLICAS, "balancer", "prometheus"}


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned_and_processes_confined(name: str) -> None:
    service = SERVICES[name]
    assert re.search(r":v?\d+\.\d+", service["image"])
    assert "latest" not in service["image"]
    if service["image"].startswith("klamm"):
        assert service["image"] == f"klamm:{__version__}"
        assert service["build"] == {"context": "..", "dockerfile": "deploy/Containerfile", "target": "service"}
        assert service["user"] == "10001:10001"
    if name != "postgres":
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    assert service["mem_limit"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), "for this machine only"


def test_every_file_that_is_named_is_there_or_made_by_the_script() -> None:
    for config in COMPOSE["configs"].values():
        assert (DEPLOY / config["file"]).is_file()
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith(".") else source in COMPOSE["volumes"]
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])
        assert {each["source"] for each in service.get("configs", [])} <= set(COMPOSE["configs"])
        assert set(service["networks"]) <= set(COMPOSE["networks"])


def test_secrets_are_files_and_nothing_else() -> None:
    named = {
        path for service in SERVICES.values() for path in service.get("environment", {}).values() if "/run/" in path
    }
    for path in named:
        assert path.removeprefix("/run/secrets/") in COMPOSE["secrets"]
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            assert not re.search(r"PASSWORD|URL|TOKEN", name) or (name.endswith("_FILE") and value.startswith("/run/"))
    assert all(set(secret) == {"file"} for secret in COMPOSE["secrets"].values())


def test_the_migration_comes_first_and_the_database_before_it() -> None:
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in REPLICAS:
        assert SERVICES[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert SERVICES["migrate"]["secrets"] == ["migrate_url"]
    assert "migrate_url" not in SERVICES["klamm-1"]["secrets"]


def test_the_balancer_and_prometheus_know_both_replicas_where_they_listen() -> None:
    port = re.search(r"^port = (\d+)", (FOLDER / "klamm.toml").read_text(), re.MULTILINE)
    assert port is not None
    addresses = [f"{name}:{port[1]}" for name in REPLICAS]
    assert re.findall(r"^\s+server \S+ (\S+)", HAPROXY, re.MULTILINE) == addresses
    (scrape,) = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": addresses}]
    assert scrape["job_name"] == "klamm", "the alerts ask for this name"
    assert re.search(r"uri /readyz\b", HAPROXY)
    assert re.search(r"http-check expect status 200\b", HAPROXY)
    assert "retry-on conn-failure" in HAPROXY, "a write must not be sent twice"


def test_a_replica_has_time_to_drain_and_to_be_noticed_draining() -> None:
    drain_ms = Settings.model_fields["drain_ms"].default
    assert "drain" not in (FOLDER / "klamm.toml").read_text()
    for name in REPLICAS:
        assert seconds(SERVICES[name]["stop_grace_period"]) > drain_ms / 1000 + END_TIMEOUT_S
        assert SERVICES[name]["healthcheck"]["test"] == ["CMD", "klamm-probe", "/readyz"]
    found = re.search(r"inter (\w+) fall (\d+)", HAPROXY)
    assert found is not None
    assert seconds(found[1]) * int(found[2]) < drain_ms / 1000


def test_the_secrets_are_not_committed() -> None:
    assert (FOLDER / ".gitignore").read_text() == "secrets/\n"
