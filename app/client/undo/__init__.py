"""client/undo: what undoes the changes that transactions have made?

May import: client/plan, client/http, core, formats. Called by: `cli`; `console` for what was before a change.
"""
