"""`klamm pipeline` as a process of its own, on the database of a `klamm serve`."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import quick_spark
from tests.klamm import LIMIT_S, SUPER_USER, Process, acl, over_socket
from tests.surroundings import without_ours

KLAMM = str(Path(sys.executable).with_name("klamm"))
LOCAL = ["--master", "local[2]", "--driver-memory", "1g"]

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("java") is None and not os.environ.get("JAVA_HOME"),
        reason="no Java: install a JDK 17, 21 or 25, or klamm[spark-jvm]",
    ),
]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipeline") / "data"


@pytest.fixture(scope="module", autouse=True)
def service(data_dir: Path) -> Iterator[Process]:
    with over_socket("--data-dir", str(data_dir)) as service:
        yield service


def variables() -> dict[str, str]:
    return {**without_ours(), "JDK_JAVA_OPTIONS": quick_spark.java_options()}


def _run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    # Somewhere else than in the source: workers must find Klamm by themselves.
    return subprocess.run(
        [KLAMM, "pipeline", *arguments],
        cwd=folder,
        env=variables(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_job_reads_the_services_own_database(data_dir: Path, tmp_path: Path) -> None:
    # Java's own warnings go to standard output, too.
    noisy = ["--conf", "spark.driver.extraJavaOptions=-Xlog:gc*:stdout"]
    ended = _run("export", "--data-dir", str(data_dir), "--metrics-file", "k.prom", *noisy, *LOCAL, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(r"(base of .*\n)?(exported offsets|nothing new since) .*\n", ended.stdout)
    steps = ended.stderr.splitlines()
    assert steps[0].startswith("export    starting Spark (local[2], Java ")
    assert steps[-1].startswith("export    done in ")
    assert not [line for line in steps if "WARN" in line or "\tat " in line]
    assert 'klamm_pipeline_success{job="export"} 1' in (tmp_path / "k.prom").read_text()
    password = (data_dir / "password").read_text().strip()
    assert password not in ended.stdout + ended.stderr


def test_a_first_night_without_a_decision_ends_well_and_its_mends_reach_the_service(
    service: Process, data_dir: Path, tmp_path: Path
) -> None:
    narrow, wide = acl("orders"), acl("ord", pattern_type="PREFIXED")
    odd = acl("it's $(touch hacked)", operation="ALL")
    service.ready().create(narrow, wide, odd, {**odd, "operation": "READ"})
    log = tmp_path / "log"
    log.mkdir()
    (log / "_decisions-20261122T001403.123456Z-4711-1.jsonl").write_text("")
    metrics = ["--metrics-file", "k.prom"]
    ended = _run("nightly", "--data-dir", str(data_dir), "--decisions", str(log), *metrics, *LOCAL, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    succeeded = re.findall(r'klamm_pipeline_success{job="(.*)"} 1', (tmp_path / "k.prom").read_text())
    assert succeeded == ["nightly", "export", "ingest", "snapshot", "hygiene"]
    left_out = [line.split()[0] for line in ended.stderr.splitlines() if "left out tonight" in line]
    assert left_out == ["effective", "report"]
    assert "failed" not in ended.stderr
    assert [line.split()[0] for line in ended.stderr.splitlines() if " done in " in line] == [
        *("export", "ingest", "snapshot", "hygiene", "nightly")
    ]

    ended = _run("hygiene", "--script", "mend.sh", *LOCAL, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    environment = {**variables(), "PATH": f"{Path(KLAMM).parent}:/usr/bin:/bin", "KLAMM": service.url, "AS": SUPER_USER}
    mended = subprocess.run(
        ["/bin/bash", "mend.sh"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert mended.returncode == 0, mended.stdout + mended.stderr
    names = ("resource_name", "pattern_type", "operation")
    assert {tuple(each[name] for name in names) for each in service.acls()} == {
        ("ord", "PREFIXED", "READ"),
        (odd["resource_name"], "LITERAL", "ALL"),
    }
    assert not (tmp_path / "hacked").exists()


def test_what_postgresql_refuses_is_one_line(data_dir: Path, tmp_path: Path) -> None:
    port = (data_dir / "port").read_text().strip()
    url = f"jdbc:postgresql://127.0.0.1:{port}/klamm"
    ended = _run("export", "--jdbc-url", url, "--jdbc-user", "klamm", "--quiet", *LOCAL, folder=tmp_path)
    assert ended.returncode == 3
    (line,) = ended.stderr.splitlines()
    assert line.startswith("export    PostgreSQL: ")
    assert "KLAMM_PIPELINE_JDBC_PASSWORD" in line


def test_ctrl_c_ends_a_job_with_130(data_dir: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [KLAMM, "pipeline", "export", "--data-dir", str(data_dir), *LOCAL],
        cwd=tmp_path,
        env=variables(),
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        said = os.read(process.stderr.fileno(), 10_000).decode()
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=LIMIT_S)[1].decode()
    assert process.returncode == 130, said
    assert "starting Spark" in said
    assert "interrupted" in said
    assert "Traceback" not in said
