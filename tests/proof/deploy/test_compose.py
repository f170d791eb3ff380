"""The script that makes compose's secrets, and a service that reads them."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml

from tests.deploy.manifests import DEPLOY
from tests.klamm import over_socket
from tests.planted import plant

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


FOLDER = DEPLOY / "compose"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The folder that the script makes."""
    script = tmp_path / "secrets.sh"
    shutil.copy(FOLDER / "secrets.sh", script)
    done = subprocess.run(
        [script], capture_output=True, text=True, check=True, timeout=60, env={"PATH": os.environ["PATH"]}
    )
    folder = Path(done.stdout.strip())
    assert folder == tmp_path / "secrets"
    for path in folder.iterdir():
        if path.suffix in {".password", ".token"}:
            plant(path.read_text())
    return folder


def test_the_script_makes_every_secret_for_its_owner_and_a_second_time_changes_nothing(made: Path) -> None:
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    wanted = {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    before = {path.name: path.read_text() for path in made.iterdir()}
    assert wanted <= before.keys()
    assert all(before.values())
    subprocess.run([made.parent / "secrets.sh"], check=True, timeout=60, capture_output=True)
    assert {path.name: path.read_text() for path in made.iterdir()} == before
    assert not [token for name, token in before.items() if name.endswith(".token") and token in before["klamm.tokens"]]


def test_a_service_with_these_settings_lets_in_whom_the_script_has_given_tokens(
    made: Path, tmp_path: Path, migrated_database_url: str
) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    text = (FOLDER / "klamm.toml").read_text().replace("/run/secrets/klamm_tokens", str(made / "klamm.tokens"))
    (folder / "klamm.toml").write_text(text.replace('host = "0.0.0.0"', 'host = "127.0.0.1"'))
    url = folder / "url"
    url.write_text(migrated_database_url)
    with over_socket(
        settings={"KLAMM_DATABASE_URL_FILE": str(url), "KLAMM_LOG_FORMAT": "JSON"}, folder=folder
    ) as service:
        for caller, path in (("platform", "/v1/acls/count"), ("prometheus", "/metrics")):
            token = (made / f"{caller}.token").read_text()
            answer = httpx.get(service.url + path, headers={"authorization": f"Bearer {token}"}, timeout=30)
            assert answer.status_code in {200, 503}, answer.text
            assert httpx.get(service.url + path, timeout=30).status_code == 401
