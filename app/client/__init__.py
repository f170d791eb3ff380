"""client: what does an operator at a terminal ask of a running service?

`klamm acls`, `why`, `export`, `plan`, `apply`: commands that call a running Klamm over HTTP, as anybody can.
May import: core, formats; httpx and rich. Never settings, store, runtime or rest. Called by: cli.
"""
