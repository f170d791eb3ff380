"""runtime: what does Klamm remember, and what does it wait for?

The image in use, the loader that follows the change feed, the mutator that writes, the purgatory where callers wait,
and readiness. May import: ops, core, asyncio. Called by: rest and main. No SQL, no HTTP, no settings: the store comes
in by two Protocols (`AclStore` in mutator, `ChangeFeed` in loader), values come in by `RuntimeOptions`.
"""
