"""Connections: how are bytes from clients read and answered, within bounds of time, size and number?

May import core, ops, rest/errors and rest/callers (the names in a certificate). Called by `app.server`.
"""
