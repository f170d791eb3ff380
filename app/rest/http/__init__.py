"""rest/http: how are clients' bytes read and answered, within bounds of time, size and number?

The one edge that every request passes (`edge`), admission, and HTTP's protocol below uvicorn.
May import: rest/bodies, rest/callers, runtime, core, process, logs, metrics. Called by: rest/routes, console and
`app.cli.server`.
"""
