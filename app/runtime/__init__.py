"""runtime: what does Klamm remember, and what does it wait for?

The image in use, the loader that follows the change feed, the mutator that writes, the purgatory where callers wait,
rights, readiness; and the importer. May import: core, formats, metrics, asyncio. Called by: rest and cli. No SQL, no
HTTP, no settings: the store comes in by the Protocols in `ports`, values by `RuntimeOptions` and `ImportOptions`.
"""
