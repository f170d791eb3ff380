"""How do several processes serve as one? Supervision, one face for probes and metrics, one load at a time.

Imports `app.ops` and `app.core` only. The supervisor is called by `app.commands`, the workers' side by `app.worker`,
`app.main` and the probes in `app.rest`.
"""
