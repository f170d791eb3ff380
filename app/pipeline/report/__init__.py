"""What does a security officer want to see of all this? Small figures out of Spark, charts of them, one page.

`access`, `history`, `trouble` turn tables into `figures` (Spark, small results); `charts` and `tables` turn figures
into what plotly draws and into HTML, `page` puts both in one file. May import core, PySpark and plotly; called by the
job `report`.
"""
