"""pipeline/access: who can do what?

Effective access, what-if and proposals. May import: pipeline/history, pipeline/spark, core, formats. Called by:
hygiene, report and jobs.
"""
