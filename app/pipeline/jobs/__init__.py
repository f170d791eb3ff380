"""What can be asked of the pipeline? A module for each job: its name, its options, and its way from tables to tables.

May import: the rest of pipeline, whose functions do the thinking. Called by `app.pipeline.job`.
"""

from app.pipeline.context import Job
from app.pipeline.jobs import (
    effective,
    export,
    hygiene,
    ingest,
    nightly,
    reconcile,
    report,
    snapshot,
    what,
    what_if,
    who,
)

JOBS: tuple[Job, ...] = (export, snapshot, reconcile, ingest, effective, who, what, hygiene, what_if, report, nightly)
"""In the order in which they follow each other."""

FIRST_THE_DATABASE: tuple[Job, ...] = (export, reconcile, nightly)
"""Jobs that can't begin without PostgreSQL."""

MAY_READ_THE_DATABASE: tuple[Job, ...] = (*FIRST_THE_DATABASE, snapshot)
"""Jobs that need its driver."""

READ_ONLY: tuple[Job, ...] = (reconcile, who, what, report)
"""Jobs that write nothing into the home, but for a report that is told no other place."""
