"""Callers: who asks, how is that proved, and what may they ask for?

May import core, logs, metrics, runtime and rest/bodies. Called by rest's routes;
`app.cli.credentials` puts it together.
"""
