"""core/explain: why is this allowed or denied, and what would change it?

May import: core. Called by: runtime and rest.
"""
