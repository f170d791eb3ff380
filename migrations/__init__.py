"""The store's schema, step by step: Alembic's scripts, applied by `klamm migrate` and at start-up."""
