"""client/plan: what turns the ACLs of a service into those of files?

The plan, who gains and loses access, and carrying it out. May import: client/http, core, formats. Called by: `cli`.
"""
