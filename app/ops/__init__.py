"""ops: what does the person on call need to see and to set?

Settings, metrics and the audit log; no HTTP, no SQL, no decisions.
May import: core. Called by: main and cli (settings; nobody else reads them), runtime and rest (metrics, audit).
"""
