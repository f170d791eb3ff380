"""Spark without what takes longer than such small queries do; the meaning is the same.

Spark plans again after each stage, and compiles each query. The cluster's jobs, the demo, and in `make test-full` the
session of tests/pipeline run as Spark comes.
"""

SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
ARGUMENTS = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
"""Of a job's command line."""
