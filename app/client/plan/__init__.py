"""client/plan: what would make of a service's ACLs those of a file?

The plan, who gains and loses by it, and carrying it out. May import: client/http, core,
formats. Called by: `cli`.
"""
