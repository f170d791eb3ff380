"""What submit-job.yaml needs of the cluster and of the entrypoint, as Spark 4.3.0 was seen to ask for it."""

import subprocess
from pathlib import Path

import pytest

from tests.deploy.containerfile import copies, stages
from tests.deploy.manifests import DEPLOY, the

SCRIPT = DEPLOY / "container" / "pipeline_entrypoint.sh"
JOB = DEPLOY / "pipeline" / "submit-job.yaml"
SAYS = """26/11/22 07:43:35 INFO LoggingPodStatusWatcherImpl: State changed, new state:
\t pod name: klamm-export-driver
\t phase: {phase}
\t container status: N/A
"""


def submit(folder: Path, said: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    spark = folder / "bin" / "spark-submit"
    spark.parent.mkdir()
    (folder / "said").write_text(said)
    spark.write_text(f'#!/bin/sh\necho "given: $*"\ncat {folder}/said >&2\nexit {status}\n')
    spark.chmod(0o755)
    return subprocess.run(
        [SCRIPT, "submit", "--name=a b", "export"],
        env={"PATH": "/usr/bin:/bin", "SPARK_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("phases", "status"),
    [
        (["Pending", "Running", "Succeeded"], 0),
        (["Pending", "Running", "Failed\n\t exit code: 1"], 1),
        (["Pending", "Running", "Failed\n\t exit code: 2"], 2),
        (["Pending", "Running", "Failed"], 3),
        (["Pending", "Failed\n\t exit code: 0"], 3),
        (["Pending", "Running"], 3),
        (["Succeeded", "Failed"], 3),
        ([], 3),
    ],
)
def test_a_submission_ends_as_the_driver_did_though_spark_submit_always_ends_well(
    tmp_path: Path, phases: list[str], status: int
) -> None:
    done = submit(tmp_path, "".join(SAYS.format(phase=phase) for phase in phases))
    assert done.returncode == status
    assert done.stdout.startswith("given: --name=a b export\n"), "what Spark says is the log"
    assert all(f"phase: {phase}" in done.stdout for phase in phases)


def test_a_submission_that_fails_itself_is_no_success(tmp_path: Path) -> None:
    assert submit(tmp_path, SAYS.format(phase="Succeeded"), status=1).returncode == 3


def test_the_job_is_started_by_the_script_that_the_image_has() -> None:
    (container,) = the("Job", "klamm-pipeline-export", JOB)["spec"]["template"]["spec"]["containers"]
    program, mode = container["command"]
    assert ([SCRIPT.relative_to(DEPLOY.parent).as_posix()], f"/usr/local/bin/{program}") in [
        (sources, destination) for _, sources, destination in copies(stages()["pipeline"])
    ]
    assert f"    {mode})\n" in SCRIPT.read_text()


def test_whoever_submits_may_make_what_spark_makes() -> None:
    rules = the("Role", "klamm-pipeline", JOB)["rules"]
    allowed = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert not any("*" in each for each in allowed)
    for resource in ("pods", "services", "configmaps"):
        assert {("", resource, verb) for verb in ("create", "patch", "list", "watch", "deletecollection")} <= allowed
    # Spark 4.3 makes a NetworkPolicy beside the driver, by server-side apply.
    assert {("networking.k8s.io", "networkpolicies", verb) for verb in ("create", "patch")} <= allowed
