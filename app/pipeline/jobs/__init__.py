"""What can be asked of the pipeline? A module for each job: its name, its options, and its steps from tables to tables.

May import: the rest of pipeline, whose functions do the work. Called by `app.pipeline.job`.
"""

from app.pipeline.context import Job
from app.pipeline.jobs import (
    effective,
    export,
    hygiene,
    ingest,
    nightly,
    propose,
    reconcile,
    report,
    snapshot,
    what_if,
)

JOBS: tuple[Job, ...] = (
    export.JOB,
    snapshot.JOB,
    reconcile.JOB,
    ingest.JOB,
    effective.JOB,
    hygiene.JOB,
    what_if.JOB,
    propose.JOB,
    report.JOB,
    nightly.JOB,
)
"""In the order in which they follow each other."""
