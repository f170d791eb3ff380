"""A driver without the packages that some jobs need, or without Klamm."""

import subprocess
import sys
from pathlib import Path

from tests.gate.unit.pipeline.test_deployment import DEPLOY, PAGE


def test_workers_and_other_jobs_need_no_package_that_reads_acls_or_draws() -> None:
    needed_by_one_job = ("msgspec", "yaml", "jinja2", "markupsafe", "plotly", "rich")
    blocked = f"import sys; sys.modules.update(dict.fromkeys({needed_by_one_job}))\n"
    tried = f"""{blocked}
from app.pipeline import job
from app.pipeline.access import what_if
sys.exit(job.main(["what-if", "--create", {str(PAGE)!r}]))
"""
    ended = subprocess.run([sys.executable, "-c", tried], capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "reading files of ACLs needs the package " in ended.stderr


def test_a_driver_that_can_not_draw_refuses_the_report_alone() -> None:
    tried = """
import sys
sys.modules.update(dict.fromkeys(("jinja2", "plotly")))
from argparse import Namespace
from app.pipeline import job
from app.pipeline.jobs import nightly
night = Namespace(decisions="/log", resources=None, teams=None, output=None)
print([step.name for step in nightly.STEPS if nightly.options_of(step, night) is not None])
sys.exit(job.main(["report"]))
"""
    ended = subprocess.run([sys.executable, "-c", tried], capture_output=True, text=True, check=False, timeout=100)
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == "['export', 'ingest', 'snapshot', 'effective', 'hygiene']\n"
    assert ended.stderr == "report    the report needs jinja2 and plotly; install klamm[spark] here\n"


def test_a_driver_elsewhere_without_klamm_ends_with_a_code_that_is_no_find(tmp_path: Path) -> None:
    script = tmp_path / "submit.py"
    script.write_bytes((DEPLOY / "submit.py").read_bytes())
    command = [sys.executable, "-S", str(script), "export"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert ended.returncode == 3
    assert "--py-files klamm.zip" in ended.stderr
