"""cli: what belongs together, and in which order does it start and stop?

The composition root: every command, and what joins settings, store, runtime and rest into a process that serves.
May import: everything; only this room reads settings. Called by: the script `klamm`.
"""
