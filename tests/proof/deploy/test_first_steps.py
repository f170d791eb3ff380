"""What docs/kubernetes.md says to type, typed: the tokens; the central service, started with them."""

import os
import re
import ssl
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import httpx

from tests.certificates import Authority
from tests.deploy.manifests import CENTRAL, DEPLOY, ROOT, containers_of, environment, manifests, pods_of
from tests.klamm import action, context, over_socket, wait_until
from tests.planted import plant
from tests.proof.deploy.rendering import charted
from tests.proof.deploy.test_probe import ask

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()


def shell(command: str, folder: Path, **variables: str) -> str:
    return subprocess.run(
        ["/bin/bash", "-euc", command],
        cwd=folder,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout


def test_the_central_service_starts_with_its_settings_and_the_tokens_that_the_page_makes(
    tmp_path: Path, migrated_database_url: str
) -> None:
    (line,) = re.findall(r"^    (for caller in .*done)$", PAGE, re.MULTILINE)
    shell(line, CENTRAL, HOME=str(tmp_path))
    tokens = {name: plant((tmp_path / f"{name}.token").read_text().strip()) for name in ("gateway", "platform")}
    secrets = tmp_path / "secrets"
    for name in ("klamm-tls", "klamm-tokens", "klamm-database"):
        (secrets / name).mkdir(parents=True)
    authority = Authority(tmp_path / "ca")
    pair = authority.certify("klamm")
    pair.certificate.rename(secrets / "klamm-tls" / "tls.crt")
    pair.key.rename(secrets / "klamm-tls" / "tls.key")
    (tmp_path / "klamm.tokens").rename(secrets / "klamm-tokens" / "klamm.tokens")
    (secrets / "klamm-database" / "url").write_text(migrated_database_url)
    folder = tmp_path / "etc"
    folder.mkdir()
    text = (CENTRAL / "klamm.toml").read_text().replace("/run/secrets", str(secrets))
    text = re.sub(r'^host = "[^"]*"', 'host = "127.0.0.1"', text, flags=re.MULTILINE)
    (folder / "klamm.toml").write_text(text)
    (central,) = [each for each in containers_of(pods_of(charted())) if each.spec["args"] == ["serve"]]
    variables = {name: value.replace("/run/secrets", str(secrets)) for name, value in environment(central.spec).items()}
    with over_socket(settings=variables, folder=folder) as service:
        assert service.url.startswith("https://")
        asked = {"KLAMM_PORT": service.url.rpartition(":")[2]}
        wait_until(lambda: ask("/readyz", asked, folder).returncode == 0, "ready")
        body = {"context": context("User:alice"), "actions": [action("orders")]}
        trusting = ssl.create_default_context(cafile=authority.file)
        with httpx.Client(base_url=service.url, verify=trusting) as http:
            for name, status in (("gateway", 200), ("platform", 403)):
                answer = http.post("/v1/authorize", json=body, headers={"authorization": f"Bearer {tokens[name]}"})
                assert answer.status_code == status, answer.text


def test_the_namespace_is_applied_and_first_so_that_nothing_in_it_is_unguarded_or_warned_about() -> None:
    commands = [line.strip() for line in PAGE.splitlines() if line.startswith("    kubectl ")]
    assert commands[0] == "kubectl apply -f deploy/helm/namespace.yaml"
    assert not [line for line in commands if "create namespace" in line]


def test_every_path_and_object_that_the_page_names_exists() -> None:
    for path in re.findall(r"(?<![\w/.])deploy/[\w./-]+[\w]", PAGE):
        assert (ROOT / path).exists(), path
    for overlay in re.findall(r"-k (\S+)", PAGE):
        assert (ROOT / overlay / "kustomization.yaml").is_file()
    for file in re.findall(r"\]\(([\w./-]+\.md)\)", PAGE):
        assert (ROOT / "docs" / file).is_file()
    named = {each["metadata"]["name"] for _, each in (*manifests(), *charted()) if "metadata" in each}
    for kind, name in re.findall(r"\b(job|deployment|namespace)/([\w-]+)", PAGE):
        assert name in named, kind


def test_spark_s_scheduler_has_what_the_submitted_job_and_the_entrypoint_ask_of_it() -> None:
    package = find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    (jar,) = (Path(package.origin).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as archive:
        names = set(archive.namelist())
        code = b"".join(archive.read(name) for name in sorted(names) if name.startswith("org/apache/spark/"))
    script = (DEPLOY / "container" / "pipeline_entrypoint.sh").read_text()
    (backend,) = re.findall(r"org\.apache\.spark\.[\w.]+", script)
    assert f"{backend.replace('.', '/')}.class" in names
    for option in re.findall(r"^\s+--([a-zA-Z-]+) \"\$", script, re.MULTILINE):
        assert option.encode() in code, option
    asked = re.findall(r"--conf=(spark\.kubernetes\.[\w.]+)", (DEPLOY / "pipeline" / "submit-job.yaml").read_text())
    assert len(asked) >= 10
    for name in asked:
        # Of a map, such as driverEnv.NAME, the beginning is what Spark knows; some names it puts together.
        beginning = re.sub(r"(driverEnv|driver\.secrets)\..*", r"\1.", name)
        known = beginning.encode() in code
        assert known or all(part.encode() in code for part in beginning.rsplit(".", 1)), name
