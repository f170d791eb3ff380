"""What does the whole store mean? Spark jobs over the published views and the decision log.

May import: core and formats, besides PySpark, PyArrow and chart packages. Called by: cli/pipeline, spark-submit.
Executors need not have Klamm: spark/shipping sends it to them.
"""
