"""runtime/state: how does a replica start while its source is away?

`keeping` records the replica's own watch stream into a file, `files` is the folder with that file, `reading` makes an
image of it. May import: core, formats, metrics, runtime's watch, snapshot and pace.
Called by: runtime (the loader, for a first image; the authorizer, which keeps the file), cli (options, and the folder's
lock).
"""
