"""pipeline/access: who can do what?

Effective access, who, what and what-if. May import: pipeline/history, pipeline/spark, core, formats. Called by:
hygiene, report and jobs.
"""
