"""The probe of the image asks a real service, by TCP, by TLS and by a Unix socket."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.deploy.manifests import DEPLOY
from tests.klamm import Process, over_socket, wait_until

PROBE = DEPLOY / "container" / "probe.py"


def ask(path: str, variables: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-IS", str(PROBE), path],
        env=dict(variables),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def port_of(service: Process) -> str:
    return service.url.rpartition(":")[2]


def test_the_image_runs_it_with_its_own_python_and_nothing_of_the_user_s() -> None:
    assert PROBE.read_text().splitlines()[0] == "#!/opt/klamm/bin/python -IS"
    assert PROBE.stat().st_mode & 0o111 == 0o111


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/startupz"])
def test_a_service_that_is_ready_passes(path: str, migrated_database_url: str, tmp_path: Path) -> None:
    with over_socket(settings={"KLAMM_DATABASE_URL": migrated_database_url}, folder=tmp_path) as service:
        variables = {"KLAMM_PORT": port_of(service)}
        wait_until(lambda: ask(path, variables, tmp_path).returncode == 0, path)
        assert ask(path, variables, tmp_path).stdout == ""


def test_one_that_has_not_loaded_lives_and_is_not_ready_and_says_why(tmp_path: Path) -> None:
    with over_socket(settings={"KLAMM_DATABASE_URL": "postgresql://127.0.0.1:1/klamm"}, folder=tmp_path) as service:
        variables = {"KLAMM_PORT": port_of(service)}
        assert ask("/livez", variables, tmp_path).returncode == 0
        for path in ("/readyz", "/startupz"):
            done = ask(path, variables, tmp_path)
            assert done.returncode == 1
            assert done.stdout.startswith("503\n[-]")


def test_where_nobody_listens_it_fails(tmp_path: Path) -> None:
    done = ask("/livez", {"KLAMM_PORT": "1"}, tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("no answer: ")


def test_port_and_tls_are_read_from_klamm_toml_as_the_service_reads_them(
    migrated_database_url: str, tmp_path: Path
) -> None:
    pair = Authority(tmp_path / "ca").certify("klamm")
    toml = tmp_path / "klamm.toml"
    toml.write_text(f'tls.certificate = "{pair.certificate}"\ntls.key = "{pair.key}"\n')
    with over_socket(settings={"KLAMM_DATABASE_URL": migrated_database_url}, folder=tmp_path) as service:
        assert service.url.startswith("https://")
        toml.write_text(f'port = {port_of(service)}\ntls.certificate = "{pair.certificate}"\n')
        assert ask("/livez", {}, tmp_path).returncode == 0
        toml.write_text(f"port = {port_of(service)}\n")
        assert ask("/livez", {}, tmp_path).returncode == 1, "by HTTP a server of HTTPS says nothing"


def test_a_unix_socket_is_asked(migrated_database_url: str, tmp_path: Path) -> None:
    socket = tmp_path / "klamm.sock"
    variables = {"KLAMM_UDS": str(socket)}
    service = subprocess.Popen(
        [str(Path(sys.executable).with_name("klamm")), "serve"],
        env={**variables, "KLAMM_DATABASE_URL": migrated_database_url, "KLAMM_DRAIN_MS": "0"},
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: ask("/readyz", variables, tmp_path).returncode == 0, "the socket answers")
    finally:
        service.terminate()
        service.wait(60)
