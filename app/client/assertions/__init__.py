"""client/assertions: do ACLs allow what they should, and nothing that they should not?

`klamm test`: assertions in YAML, against files of ACLs or a service. May import: client, core, formats. Called by: cli.
"""
