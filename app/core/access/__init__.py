"""core/access: who can do what, and who gains and who loses what if the ACLs change?

Names and hosts as regions that nest, each region decided once. May import: core. Called by: runtime, client, pipeline.
"""
