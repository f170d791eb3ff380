"""ops: what does the person on call need to see and to set?

Settings, metrics, the audit log, the decision log, files of ACLs and the progress of reading them, sockets, workers and
their supervisor; no HTTP, no SQL, no decisions.
May import: core, formats. Called by: main, cli and worker (settings: main and cli only), runtime and rest (metrics,
audit, decision log).
"""
