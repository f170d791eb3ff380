"""What does an operator at a terminal ask of a service?

`klamm acls`, `why`, `export`, `plan`, `apply`: commands that speak HTTP to a Klamm that runs, as anybody could.
May import: core, formats; httpx and rich. Never settings, store, runtime or rest. Called by: cli.
"""
