"""client/why: why is this allowed or denied?

The explanation of a running service, for people. May import: client/http, core. Called by: `cli`.
"""
