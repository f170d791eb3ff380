"""Section `skew`: a log of which one principal has half, on a standalone cluster of two workers of one core each."""

import tempfile
from pathlib import Path

from tests.bench.pipeline import cost_of, run_module
from tests.bench.processes import all_cores
from tests.bench.report import Row, Section, Table, prose
from tests.proof.cluster.stages import event_log, largest_stage
from tests.proof.cluster.standalone import Cluster, driver_environment, found_java_home

_ACLS, _QUICK_ACLS = 1_000_000, 20_000
_EXECUTOR = "3g"
_SETTINGS = {"spark.executor.memory": _EXECUTOR, "spark.sql.shuffle.partitions": "16"}
_METHOD = f"""
    The cluster of the suite: a master and two workers of one core each, executors of {_EXECUTOR} whose Python lacks
    Klamm. `what-if` takes the ACLs of a team and of an application away, and asks core all of a log that has ten times
    as many decisions as there are ACLs, half of them one principal's; ACLs of `User:*` are in every bucket. CPU time of
    driver, executors and Python workers, once.
"""


def skew(*, quick: bool) -> Section:
    """How long it takes, and how evenly the work is dealt out."""
    acls = _QUICK_ACLS if quick else _ACLS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Executors are started with fewer rights than root has, and the home is theirs as well.
        folder.chmod(0o755)
        with all_cores(), Cluster(folder, found_java_home(), worker_memory="4g", java_options="") as cluster:
            home, events = cluster.shared / "home", cluster.shared / "events"
            run_module("tests.bench.company_at_scale", str(home), str(acls), "skewed")
            events.mkdir()
            settings = [word for key, value in _SETTINGS.items() for word in ("--conf", f"{key}={value}")]
            where = [*cluster.arguments, *settings, *event_log(events), "--home", str(home)]
            what_if = ["what-if", "--delete", str(home / "change.json")]
            cost = cost_of([*what_if, *where], driver_environment(cluster))
        records, executors = largest_stage(events)
    decisions, most = 10 * acls, max(records) * len(records) / sum(records)
    rows = [
        Row(f"what-if, {decisions:,} decisions", "s of CPU", [cost.cpu_s], note=f"{len(executors)} executors"),
        Row(f"what-if, {decisions:,} decisions", "s of wall time", [cost.wall_s], bar=600),
        Row(f"largest of {len(records)} tasks that ask core", "times their mean", [most], bar=2),
    ]
    return Section("skew", prose(_METHOD), [Table("Half of the log is one principal's", rows).judged(unless=quick)])
