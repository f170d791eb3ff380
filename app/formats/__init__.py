"""formats: how do others write ACLs down?

Readers from files to bindings, and writers from bindings to text, one file a format; `registry` names them. A format
states its whole shape (`shapes`), by which `shape_reader` reads JSON and YAML; `source` is a file, `reading` a set.
A reader never guesses: what it can't read for certain it tells, with line and field. A writer refuses what its format
can't say (`FormatLimitError`) before it writes anything. The `Clock` of all options stands here too, below all of them.
May import: core, the standard library, msgspec and PyYAML. Called by: cli (files), rest (the shape of a binding in
JSON), client, import and pipeline (changes that are tried).
"""
