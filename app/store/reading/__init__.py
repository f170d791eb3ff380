"""store/reading: how does the change feed leave the store?

May import: store/writing (epochs), core. Called by: cli, which hands `PostgresChangeFeed` to runtime.
"""
