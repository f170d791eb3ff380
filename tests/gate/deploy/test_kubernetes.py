"""Variables, settings and addresses in manifests that are not rendered mean what the code means."""

import re
from pathlib import Path

import pytest

from app.cli import credentials
from app.settings.model import Settings, read_settings
from app.settings.sources import variable_of
from tests.deploy.manifests import (
    CENTRAL,
    DEPLOY,
    TEXTS,
    containers_of,
    environment,
    manifests,
    pods_of,
)

PODS = pods_of(manifests())


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_variable_exists(path: Path) -> None:
    from app.pipeline.spark.options import VARIABLES

    known = {variable_of(name) for name in Settings.model_fields} | set(VARIABLES) | {"KLAMM_DATABASE_URL_FILE"}
    named = set(re.findall(r"\bKLAMM_[A-Z_]+\b", path.read_text()))
    assert named <= known


@pytest.mark.parametrize("path", [CENTRAL, DEPLOY / "compose"], ids=["central", "compose"])
def test_the_settings_start_a_service_that_is_reached_from_elsewhere(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = tmp_path / "url"
    url.write_text("postgresql://klamm_serve:secret@db.example.com/klamm")
    monkeypatch.setenv("KLAMM_DATABASE_URL_FILE", str(url))
    monkeypatch.chdir(path)
    settings = read_settings()
    assert not credentials.resolves_to_loopback(settings.host)
    credentials.refuse_exposed_address(settings)
    assert {caller.role for caller in settings.callers.values()} - {"follow"} == {"decide", "admin", "observe"}
    assert settings.super_users == {settings.callers["platform"].principal}, "the first ACLs need a super user"
    assert not any(caller.may_assert_super for caller in settings.callers.values())
    assert settings.tokens_file is not None
    assert (settings.tls_certificate is not None) == (path == CENTRAL), "only compose's network is nobody else's"


def test_without_its_callers_the_central_service_would_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = (CENTRAL / "klamm.toml").read_text().partition("[callers")[0].replace("tokens.file", "# tokens.file")
    (tmp_path / "klamm.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match="no callers are configured"):
        credentials.refuse_exposed_address(read_settings())


def test_the_sidecar_is_reached_by_its_own_pod_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (sidecar,) = [each for each in containers_of(PODS) if each.spec.get("args") == ["serve"]]
    assert sidecar.spec["restartPolicy"] == "Always", "started first, ended last"
    variables = environment(sidecar.spec)
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert credentials.resolves_to_loopback(settings.host)
    credentials.refuse_exposed_address(settings)
    address = environment(next(each.spec for each in containers_of(PODS) if "app.yaml" in each.where))["AUTHORIZER_URL"]
    assert address == f"http://{settings.host}:{settings.port}"
