"""client/watch: what changes at a service, as it changes?

Follows the feed over broken connections, and prints it. May import: client/http, core, formats. Called by: `cli`.
"""
