"""store/embedded: how is a PostgreSQL of our own made, started, kept alive and stopped?

May import: core. Called by: cli.
"""
