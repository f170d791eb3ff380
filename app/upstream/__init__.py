"""upstream: how is another Klamm followed, as the store of this one?

Runtime's two ports over watch and REST: streams that are proved as they are read, snapshots, and updates that are
handed on. May import: core, formats; httpx. Called by: cli. No SQL, and never store.
"""
