"""core/index: which ACLs apply to this?

The ACLs of an image compiled for decisions, lists and changes, with single steps that stay short at a million ACLs.
May import: core/kafka. Called by: the rest of core, and runtime (`search`, `any_resource`).
"""
