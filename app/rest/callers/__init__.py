"""Callers: who asks, how is that proved, and what may they ask for?

May import core, ops, runtime and rest/admission. Called by rest's routes; `app.credentials` puts it together.
"""
