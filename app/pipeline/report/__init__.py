"""What does a security officer want to see of all this? Small figures out of Spark, charts of them, one page.

`reach`, `heat` and `totals` turn tables into `figures` (Spark, small results); `sections` and `charts` turn figures
into tables and into plotly's charts, `page` into one HTML file. May import core, pipeline/access, PySpark, jinja2
and plotly; called by the job `report`.
"""
