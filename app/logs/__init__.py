"""logs: what did this process do, and whom did it allow or deny?

The service log, the audit log, the decision log and traces; secrets are kept out of all of them.
May import: core, formats, metrics. Called by: rest and cli.
"""
