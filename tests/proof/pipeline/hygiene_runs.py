"""One run of `hygiene` over ACLs and a log that a service on them would have written, and what it left."""

import argparse
import io
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pyspark.sql import SparkSession

from app.core.epochs import Epochs
from app.core.kafka.bindings import StandardAcl
from app.pipeline.context import JobContext
from app.pipeline.history.snapshot import Snapshot, save_snapshot
from app.pipeline.hygiene.findings import load_findings
from app.pipeline.jobs import hygiene
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home
from tests.proof.pipeline.logs import Question, loaded, log_frame, logged, save_log
from tests.proof.pipeline.random_stores import acl_frame, alive


class Run:
    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        acls: list[StandardAcl],
        asked: list[Question],
        listed: Sequence[tuple[str, str]],
    ) -> None:
        self.acls, self.asked = acls, asked
        home = Home(str(folder / "home"))
        as_of = datetime(2026, 11, 22, tzinfo=UTC)
        save_snapshot(spark, home, Snapshot(acl_frame(spark, acls), {}, "c", Epochs.only(UUID(int=1)), 9, as_of, "00"))
        save_log(home, log_frame(spark, logged(loaded(alive(acls, as_of), allow_everyone=False), asked)))
        path = folder / "list.csv"
        path.write_text("resource_type,resource_name\n" + "".join(f"{kind},{name}\n" for kind, name in listed))
        parser, results = argparse.ArgumentParser(), io.StringIO()
        hygiene.add_arguments(parser)
        self.csv, self.script = folder / "found.csv", folder / "mend.sh"
        files = ["--resources", str(path), "--csv", str(self.csv), "--script", str(self.script)]
        closed = ["--allow-everyone-if-no-acl-found", "false"]
        words = [*files, *closed, "--fail-on-findings", "--min-days", "0"]
        context = JobContext(spark, home, Console("hygiene", results=results), RunMetrics("hygiene"))
        self.status = hygiene.run(context, parser.parse_args(words))
        self.said = results.getvalue().splitlines()
        saved = load_findings(spark, home)
        assert saved is not None
        self.manifest = saved.manifest
        self.findings: list[dict[str, Any]] = [row.asDict() for row in saved.findings.collect()]

    def ids(self, *kinds: str) -> set[str]:
        """The ACLs with findings of these kinds."""
        return {row["acl_id"] for row in self.findings if row["kind"] in kinds}
