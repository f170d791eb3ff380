"""What does the whole store mean? Spark jobs over the published views and the decision log.

May import: core and formats, beside PySpark, PyArrow and what draws charts. Called by: cli/pipeline, spark-submit.
Executors need not have Klamm: spark/shipping sends it to them.
"""
