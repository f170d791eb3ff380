"""Callers: who is calling, how is that proved, and what may they ask for?

May import: core, formats, logs, metrics, runtime, rest/bodies, rest/errors. Called by: rest; `app.cli.credentials` puts
it together.
"""
