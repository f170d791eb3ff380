"""pipeline/spark: how does a job run, read and write?

Sessions, JDBC, storage, options, progress. May import: core, formats, PySpark. Called by:
the rest of pipeline.
"""
