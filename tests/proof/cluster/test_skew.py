"""One principal has half of the log, and `User:*` has ACLs that every decision needs: no task gets most of the work."""

import shutil
import subprocess
import sys

from app.pipeline.access.replay import DEFAULT_BUCKETS, LEAST_SPLIT
from tests.proof.cluster.nights import BUSY_PATIENCE_S, ROOT, Company, ended, started, tables
from tests.proof.cluster.stages import event_log, largest_stage
from tests.proof.cluster.standalone import Cluster, driver_environment

_ACLS = LEAST_SPLIT // 8
"""Ten times as many decisions; most of them are different questions, so that there are enough to split a principal."""


def test_a_log_of_which_one_principal_has_half_is_spread_over_the_cluster(cluster: Cluster, company: Company) -> None:
    here, there, events = (cluster.shared / name for name in ("skewed-here", "skewed-there", "events"))
    subprocess.run(
        [sys.executable, "-m", "tests.bench.company_at_scale", str(here), str(_ACLS), "skewed"],
        cwd=ROOT,
        env=driver_environment(cluster),
        check=True,
        timeout=BUSY_PATIENCE_S,
        stderr=subprocess.DEVNULL,
    )
    shutil.copytree(here, there)
    events.mkdir()
    said = []
    for home, where in ((here, ["--master", "local[2]"]), (there, [*cluster.arguments, *event_log(events)])):
        what_if = ["what-if", "--name", "less", "--delete", str(home / "change.json")]
        driver = started(company, home, [what_if], where, driver_environment(cluster))
        said.append(ended(driver)[1:])
    assert said[0] == said[1]
    assert said[0][0]["status"] == 1
    assert tables(here)["what-if/less/flips"] == tables(there)["what-if/less/flips"]
    records, executors = largest_stage(events)
    assert len(records) == DEFAULT_BUCKETS
    assert len(executors) == 2
    # That principal alone would be eight shares.
    assert max(records) < 2 * sum(records) / len(records)
