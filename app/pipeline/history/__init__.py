"""pipeline/history: what has happened, offset by offset?

Exports of the feed, the decision log, and the ACLs at one offset. May import: pipeline/spark, core. Called by: access,
hygiene, report and jobs.
"""
