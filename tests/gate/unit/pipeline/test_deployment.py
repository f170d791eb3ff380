"""What the manifests and the page say exists in the code."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from app.cli.pipeline import ServiceDatabase

ROOT = Path(__file__).parents[4]
DEPLOY = ROOT / "deploy" / "pipeline"
PAGE = ROOT / "docs" / "pipeline.md"
FILES = [PAGE, *sorted(DEPLOY.iterdir())]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_variable_exists(path: Path) -> None:
    from app.pipeline.spark.options import VARIABLES

    named = set(re.findall(r"KLAMM_PIPELINE_\w+", path.read_text()))
    assert named <= set(VARIABLES)


def test_the_page_names_every_variable_every_job_and_every_exit_code() -> None:
    from app.pipeline.jobs import JOBS
    from app.pipeline.spark.options import VARIABLES

    text = PAGE.read_text()
    assert not [each for each in VARIABLES if f"`{each}`" not in text]
    assert not [job.name for job in JOBS if f"`{job.name}`" not in text]
    assert not [code for code in (0, 1, 2, 3, 130) if f"\n| {code} |" not in text]


def test_the_page_s_table_of_options_has_those_that_there_are() -> None:
    from app.pipeline.job import parser_of

    table = PAGE.read_text().partition("## Set-up")[2].partition("##")[0]
    for flag in re.findall(r"`(--[a-z-]+)", table):
        arguments = ["export", flag] if flag in {"--quiet", "--debug"} else ["export", flag, "1"]
        parser_of(service=ServiceDatabase()).parse_args(arguments)


def test_the_nightly_pod_runs_a_job_with_options_that_it_has() -> None:
    from app.pipeline.job import parser_of

    cron = yaml.safe_load((DEPLOY / "cronjob.yaml").read_text())
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    job = cron["spec"]["jobTemplate"]["spec"]
    assert job["activeDeadlineSeconds"] > 0
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][:2] == ["klamm", "pipeline"]
    parser_of().parse_args([*container["command"][2:], *container["args"]])
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert not [each["name"] for each in container["env"] if "PASSWORD" in each["name"] and "FILE" not in each["name"]]


def test_the_submitted_job_exists() -> None:
    from app.pipeline.job import parser_of

    job = list(yaml.safe_load_all((DEPLOY / "submit-job.yaml").read_text()))[-1]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    script = next(place for place, each in enumerate(container["args"]) if each.endswith("submit.py"))
    parser_of().parse_args(container["args"][script + 1 :])


def test_no_module_of_the_pipeline_hides_one_of_python() -> None:
    names = {path.stem for path in (*DEPLOY.glob("*.py"), *(ROOT / "app").glob("*.py"))} - {"__init__"}
    assert not names & sys.stdlib_module_names
