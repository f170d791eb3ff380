"""rest/routes: which endpoint answers this?

May import: rest/http, rest/bodies, rest/callers, runtime, core. Called by: `app.rest.app`.
"""
