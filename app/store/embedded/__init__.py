"""store/embedded: how is our own PostgreSQL made, started, kept alive and stopped?

May import: core. Called by: cli.
"""
