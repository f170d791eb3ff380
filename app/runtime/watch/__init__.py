"""runtime/watch: who follows this replica's feed, and what does each of them still have to get?

`recent` keeps the newest transactions, `image_parts` sends a whole image as of one offset, `watchers` is what readers
share, `reader` is one of them. `lines` cuts what they are sent into slices, `rounds` gives each its turn, `fan_out`
paces that, and `places` bounds what is one reader's alone. May import: core, formats, metrics, runtime's
ports, options and pace. Called by: runtime (the loader reports what it applies), rest (a request a
reader).
"""
