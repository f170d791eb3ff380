"""store/writing: how is a group of updates written?

One transaction under the head's lock, and a stretch of the feed. May import: store, core, formats. Called by: cli,
which hands `PostgresAclStore` and `PostgresBulkStore` to runtime.
"""
