"""rest/routes: which endpoint answers this?

May import: the rest of rest, runtime, process, logs, metrics, core. Called by: `app.rest.app`.
"""
