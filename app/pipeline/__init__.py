"""What does the whole store mean? Spark jobs over the published views and the decision log.

May import: core and formats, beside PySpark, PyArrow and what draws charts. Called by: cli/pipeline, spark-submit.
Nothing here uses sparkContext, RDDs or `_jvm`, so that everything runs under Spark Connect as well.
"""
