"""client/reach: `klamm who` and `klamm what`: who has access to what?

May import: client, formats, core. Called by: cli, by name.
"""
