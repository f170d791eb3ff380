"""Settings that make Spark quicker for small queries; the results are the same.

Spark plans again after each stage, and compiles each query: more work than these queries are. Commands and the demo run
with Spark's defaults, and tests/cluster compares what all jobs write with and without these settings.
"""

SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
ARGUMENTS = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
"""The same on a job's command line."""

JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""Options of a JVM that lives for a few jobs: half of its time would go into optimizing code that hardly runs again.

The default room for compiled code would then be 48 MB, and when it is full nothing is compiled any more.
"""
