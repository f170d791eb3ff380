"""store/reading: how does the change feed leave the store?

May import: store, store/writing (epochs), core, formats. Called by: cli, which hands `PostgresChangeFeed`
and `PostgresPast` to runtime.
"""
