"""runtime/watch: who follows this replica's feed, and what does each of them still have to get?

`recent` keeps the newest transactions, `image_parts` sends a whole image as of one offset, `watchers` sends to readers
and keeps their bounds, `fan_out` paces that, `reader` is one of them. May import: core, formats, metrics, runtime's
ports, options and pace. Called by: runtime (the loader reports what it applies), rest (a request a
reader).
"""
