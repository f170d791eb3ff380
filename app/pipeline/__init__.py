"""What does the whole store mean? Spark jobs over the published views and the decision log.

Imports core only, beside PySpark, PyArrow and what charts are drawn with. Called by `klamm pipeline` and spark-submit.
Nothing here uses sparkContext, RDDs or `_jvm`, so that everything runs under Spark Connect as well.
"""
